// The npm package @tanstack/db in the scenarios of `cargo xtask bench live`: one scenario in one
// process, its figures as one line of JSON. `tools/bench/src/live` plays the same with ours: same
// rows, same order of keys, same numbers by chance.
//
//   node --expose-gc live.mjs SCENARIO [--quick]
//
// The package tells everybody before the call that changes a row returns, so the time of that call
// is the time from the change to the answer.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

process.env.NODE_ENV = "production"
const db = await import("@tanstack/db")
const { and, avg, concat, count, createCollection, createEffect, createLiveQueryCollection } = db
const { eq, max, sum, toArray } = db

const quick = process.argv.includes("--quick")
const sized = (whole) => (quick ? whole / 10 : whole)
const ROWS = sized(100_000)
const MESSAGES = sized(10_000)
const CHUNKS_EACH = 20
const STATUSES = ["pending", "running", "done", "failed"]

// ---- chance, rows ----

// Mulberry32.
function chance(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const below = (random, limit) => Math.floor(random() * limit)
const keyOf = (number) => "k" + String(number).padStart(8, "0")
const randomKey = (random) => {
  return Array.from({ length: 16 }, () => below(random, 36).toString(36)).join("")
}

function job(number, random, id = keyOf(number)) {
  const status = STATUSES[below(random, 4)]
  const priority = below(random, 1e6)
  const agent = `agent-${number % 100}`
  return { id, status, agent, priority, attempt: 0, payload: `payload-${number}` }
}

const jobs = (length, random) => Array.from({ length }, (_, number) => job(number, random))
const pendingOf = (rows) => rows.filter((row) => row.status === "pending").length
const message = (number) => {
  return { id: keyOf(number), role: number % 2 ? "assistant" : "user", thread: `t${number % 50}` }
}
const chunk = (number, of, seq) => {
  return { id: keyOf(number), messageId: keyOf(of), seq, text: `tok${number} ` }
}

// ---- collections, queries ----

// A collection that is written to as a sync would: each call is one transaction.
function synced(rows, options = {}) {
  let sync
  const write = (type, values) => {
    sync.begin()
    for (const value of values) sync.write({ type, value })
    sync.commit()
  }
  const collection = createCollection({
    id: `synced-${Math.random()}`,
    getKey: (row) => row.id,
    startSync: true,
    gcTime: 0,
    defaultStringCollation: { stringSort: "lexical" },
    sync: {
      rowUpdateMode: "full",
      sync: (given) => {
        sync = given
        if (rows.length > 0) write("insert", rows)
        rows = []
        sync.markReady()
      },
    },
    ...options,
  })
  const one = (type, value) => {
    sync.begin()
    sync.write({ type, value })
    sync.commit()
  }
  return { collection, one, many: write }
}

const live = (query) => createLiveQueryCollection({ startSync: true, gcTime: 0, query })
const pending = (collection) =>
  live((q) => q.from({ j: collection }).where(({ j }) => eq(j.status, "pending")))

// ---- figures ----

const cpuNow = () => {
  const { user, system } = process.cpuUsage()
  return user + system
}
const rank = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]

// One call, as a whole: the lesser of wall and processor time, so that neighbours do not count.
function whole(name, work) {
  const [cpu, began] = [cpuNow(), performance.now()]
  const result = work()
  const wall_us = (performance.now() - began) * 1e3
  const cpu_us = cpuNow() - cpu
  return { figure: { name, us: Math.min(wall_us, cpu_us), cpu_us, is_whole: true }, result }
}

// Many calls, each by the clock. `prepare` makes what a call is given, off the clock.
function each(name, calls, warm, prepare, call) {
  const times = []
  let cpu = 0
  for (let number = 0; number < calls; number++) {
    const given = prepare(number)
    if (number === warm) cpu = cpuNow()
    const began = performance.now()
    call(given)
    const took = performance.now() - began
    if (number >= warm) times.push(took * 1e3)
  }
  const cpu_us = (cpuNow() - cpu) / (calls - warm)
  return { ...spread(name, times), cpu_us }
}

function spread(name, times) {
  const sorted = Float64Array.from(times).sort()
  return { name, us: rank(sorted, 0.5), p99_us: rank(sorted, 0.99), is_whole: false }
}

function heapUsed() {
  globalThis.gc()
  return process.memoryUsage().heapUsed
}

// ---- scenarios ----

function bulk() {
  const before = heapUsed()
  const rows = jobs(ROWS, chance(1))
  const source = synced([])
  const query = pending(source.collection)
  const { figure } = whole("all rows", () => source.many("insert", rows))
  const ok = query.size === pendingOf(rows)
  rows.length = 0
  return { ok, figures: [figure], heap: { bytes: heapUsed() - before, rows: ROWS } }
}

function grow(key) {
  const random = chance(1)
  const source = synced([])
  const query = pending(source.collection)
  const rows = Array.from({ length: ROWS }, (_, number) => job(number, random, key(number)))
  const times = new Float64Array(ROWS)
  const cpu = cpuNow()
  for (let number = 0; number < ROWS; number++) {
    const began = performance.now()
    source.one("insert", rows[number])
    times[number] = (performance.now() - began) * 1e3
  }
  const cpu_us = (cpuNow() - cpu) / ROWS
  const last = spread("insert, the last tenth", times.subarray(ROWS * 0.9))
  return { ok: query.size === pendingOf(rows), figures: [{ ...last, cpu_us }] }
}

function steady(status, isWatched = true) {
  const random = chance(2)
  const source = synced(jobs(ROWS, random))
  const query = isWatched ? pending(source.collection) : undefined
  const before = query?.size
  const calls = sized(12_000)
  const prepare = (number) => ({ ...job(ROWS + number, random), status })
  const insert = each("insert", calls, calls / 6, prepare, (row) => source.one("insert", row))
  const entered = status === "pending" ? calls : 0
  return { ok: !query || query.size - before === entered, figures: [insert] }
}

function enterAndLeave() {
  const random = chance(2)
  const rows = jobs(ROWS, random)
  const source = synced(rows)
  const query = pending(source.collection)
  const calls = sized(12_000)
  const prepare = () => {
    const at = below(random, ROWS)
    const status = rows[at].status === "pending" ? "running" : "pending"
    return (rows[at] = { ...rows[at], status, attempt: rows[at].attempt + 1 })
  }
  const update = each("update", calls, calls / 6, prepare, (row) => source.one("update", row))
  return { ok: query.size === pendingOf(rows), figures: [update] }
}

function optimistic() {
  const source = synced([], { onInsert: () => new Promise(() => {}) })
  const query = pending(source.collection)
  const random = chance(3)
  const calls = sized(5_000)
  const times = []
  const cpu = cpuNow()
  for (let number = 0; number < calls; number++) {
    const row = { ...job(number, random), status: "pending" }
    const began = performance.now()
    source.collection.insert(row)
    times.push((performance.now() - began) * 1e3)
  }
  const cpu_us = (cpuNow() - cpu) / calls
  const last = spread("insert, the last tenth", times.slice(-calls / 10))
  return { ok: query.size === calls, figures: [{ ...last, cpu_us }] }
}

function localOnly() {
  const options = db.localOnlyCollectionOptions({ id: "local", getKey: (row) => row.id })
  const collection = createCollection(options)
  const query = pending(collection)
  const random = chance(3)
  const calls = sized(10_000)
  const prepare = (number) => ({ ...job(number, random), status: "pending" })
  const insert = each("insert", calls, calls / 10, prepare, (row) => collection.insert(row))
  return { ok: query.size === calls, figures: [insert] }
}

function effects(total, where, wanted) {
  const random = chance(4)
  const rows = sized(10_000)
  const source = synced(jobs(rows, random))
  let hits = 0
  const { figure: create } = whole(`create ${total}`, () => {
    for (let number = 0; number < total; number++) {
      const query = (q) => q.from({ j: source.collection }).where(where(number))
      createEffect({ skipInitial: true, query, onEnter: () => hits++ })
    }
  })
  let ok = true
  const prepare = (number) => {
    if (number > 0 && hits !== wanted) ok = false
    hits = 0
    return { ...job(rows + number, random), status: "pending" }
  }
  // Handlers run before the call returns.
  const calls = sized(1_200)
  const put = (row) => source.one("insert", row)
  const insert = each("insert, all handlers", calls, calls / 6, prepare, put)
  return { ok: ok && hits === wanted, figures: [insert, create] }
}

const isPending = ({ j }) => eq(j.status, "pending")
const isPendingOf = (agent) => {
  return ({ j }) => and(eq(j.agent, `agent-${agent}`), eq(j.status, "pending"))
}

function ordered(options, limit) {
  const random = chance(5)
  const rows = jobs(ROWS, random)
  const source = synced(rows, options)
  const { figure: begin, result: query } = whole("hydrate", () => {
    const query = live((q) => {
      const sorted = q.from({ j: source.collection }).orderBy(({ j }) => j.priority, "desc")
      return limit ? sorted.limit(limit) : sorted
    })
    void query.size
    return query
  })
  const size = query.size
  const [calls, warm] = limit ? [sized(5_500), sized(500)] : [sized(700), sized(200)]
  const move = () => {
    const at = below(random, ROWS)
    return (rows[at] = { ...rows[at], priority: below(random, 1e6) })
  }
  const top = (number) => {
    const row = { ...job(ROWS + number, random), priority: 1e6 + number }
    rows.push(row)
    return row
  }
  const update = each("update", calls, warm, move, (row) => source.one("update", row))
  const insert = each("insert at the top", calls, warm, top, (row) => source.one("insert", row))
  rows.sort((a, b) => b.priority - a.priority || (a.id < b.id ? -1 : 1))
  const shown = query.toArray
  const wanted = rows.slice(0, limit ?? rows.length)
  const ok =
    size === (limit ?? ROWS) &&
    shown.length === wanted.length &&
    shown.every((row, place) => row.priority === wanted[place].priority) &&
    shown[0].id === wanted[0].id
  return { ok, figures: [update, insert, begin] }
}

function chat() {
  const indexed = { autoIndex: "eager", defaultIndexType: db.BasicIndex }
  const messages = synced(Array.from({ length: MESSAGES }, (_, number) => message(number)), indexed)
  const length = MESSAGES * CHUNKS_EACH
  const written = Array.from({ length }, (_, number) => {
    return chunk(number, Math.floor(number / CHUNKS_EACH), number % CHUNKS_EACH)
  })
  return { messages, chunks: synced(written, indexed), length }
}

function joined(kind) {
  const before = heapUsed()
  const { messages, chunks, length } = chat()
  const { figure: begin, result: query } = whole("hydrate", () => {
    const query = live((q) =>
      q
        .from({ k: chunks.collection })
        .join({ m: messages.collection }, ({ k, m }) => eq(k.messageId, m.id), kind)
        .select(({ k, m }) => {
          return { id: k.id, messageId: k.messageId, seq: k.seq, text: k.text, role: m.role }
        }),
    )
    void query.size
    return query
  })
  const size = query.size
  const heap = { bytes: heapUsed() - before, rows: length }
  const random = chance(11)
  const [calls, updates] = [sized(5_500), sized(1_100)]
  const next = (number) => chunk(length + number, below(random, MESSAGES), 1_000 + number)
  const put = (row) => chunks.one("insert", row)
  const insert = each("insert of a chunk", calls, calls / 11, next, put)
  const other = (number) => {
    return { id: keyOf(below(random, MESSAGES)), role: `r${number}`, thread: "t" }
  }
  const write = (row) => messages.one("update", row)
  const update = each("update of a message of 20", updates, updates / 11, other, write)
  const ok = size === length && query.size === length + calls
  return { ok, figures: [insert, update, begin], heap }
}

const told = (q, messages, chunks) =>
  q.from({ m: messages.collection }).select(({ m }) => ({
    id: m.id,
    role: m.role,
    text: concat(
      toArray(
        q
          .from({ k: chunks.collection })
          .where(({ k }) => eq(k.messageId, m.id))
          .orderBy(({ k }) => k.seq)
          .select(({ k }) => k.text),
      ),
    ),
  }))

function included() {
  const { messages, chunks, length } = chat()
  const { figure: begin, result: query } = whole("hydrate", () => {
    const query = live((q) => told(q, messages, chunks))
    void query.get(keyOf(0)).text
    return query
  })
  const random = chance(11)
  const calls = sized(2_200)
  const next = (number) => chunk(length + number, below(random, MESSAGES), 1_000 + number)
  const put = (row) => chunks.one("insert", row)
  const insert = each("insert of a chunk", calls, calls / 11, next, put)
  const text = Array.from({ length: CHUNKS_EACH }, (_, number) => `tok${number} `).join("")
  const ok = query.size === MESSAGES && query.get(keyOf(0)).text.startsWith(text)
  return { ok, figures: [insert, begin] }
}

function streamed() {
  const messages = synced([{ id: "m", role: "assistant" }])
  const chunks = synced([], { autoIndex: "eager", defaultIndexType: db.BasicIndex })
  const query = live((q) => told(q, messages, chunks))
  const calls = sized(10_000)
  const times = []
  const cpu = cpuNow()
  for (let seq = 0; seq < calls; seq++) {
    const row = { id: keyOf(seq), messageId: "m", seq, text: "tok " }
    const began = performance.now()
    chunks.one("insert", row)
    times.push((performance.now() - began) * 1e3)
  }
  const cpu_us = (cpuNow() - cpu) / calls
  const tenth = calls / 10
  const first = spread("token, the first tenth", times.slice(tenth / 10, tenth))
  const last = { ...spread("token, the last tenth", times.slice(-tenth)), cpu_us }
  return { ok: query.get("m").text === "tok ".repeat(calls), figures: [first, last] }
}

function grouped(by, select, calls) {
  const random = chance(6)
  const rows = jobs(ROWS, random)
  const source = synced(rows)
  const { figure: begin, result: query } = whole("hydrate", () => {
    const query = live((q) => q.from({ j: source.collection }).groupBy(by).select(select))
    void query.size
    return query
  })
  const next = (number) => job(ROWS + number, random)
  const warm = Math.floor(calls / 11)
  const insert = each("insert", calls, warm, next, (row) => source.one("insert", row))
  const move = () => {
    const at = below(random, ROWS)
    return (rows[at] = { ...rows[at], priority: below(random, 1e6) })
  }
  const update = each("update", calls, warm, move, (row) => source.one("update", row))
  const rowsOf = (group) => group.n
  const ok = query.toArray.map(rowsOf).reduce((a, b) => a + b) === ROWS + calls
  return { ok, figures: [insert, update, begin] }
}

const byAgent = ({ j }) => j.agent
const byStatus = ({ j }) => j.status

// From a file of the events of a State Protocol stream, one a line, to a live query. There is no log
// to open: this is the least that a client could do.
function cold() {
  const random = chance(1)
  const rows = jobs(ROWS, random)
  const events = rows.map((value, number) => {
    const headers = { operation: "insert", txid: String(Math.floor(number / 8)) }
    return JSON.stringify({ type: "job", key: value.id, value, headers })
  })
  const dir = mkdtempSync(join(tmpdir(), "live-bench-"))
  const file = join(dir, "events")
  writeFileSync(file, events.join("\n"))
  const { figure, result: query } = whole("open until ready", () => {
    const source = synced([])
    const query = pending(source.collection)
    const values = []
    for (const event of readFileSync(file, "utf8").split("\n")) values.push(JSON.parse(event).value)
    source.many("insert", values)
    return query
  })
  rmSync(dir, { recursive: true })
  return { ok: query.size === pendingOf(rows), figures: [figure] }
}

const scenarios = {
  a1: bulk,
  a2: () => grow(keyOf),
  a3: () => {
    const random = chance(7)
    return grow(() => randomKey(random))
  },
  a4: () => steady("pending"),
  a5: () => steady("done"),
  a6: enterAndLeave,
  a7: () => steady("pending", false),
  a8: optimistic,
  a9: localOnly,
  b1: () => effects(100, isPendingOf, 1),
  b2: () => effects(100, () => isPending, 100),
  b3: () => effects(1_000, (number) => isPendingOf(number % 100), 10),
  b4: () => effects(1, () => isPending, 1),
  b5: () => effects(sized(10_000), (number) => isPendingOf(number), 1),
  c1: () => ordered({ autoIndex: "eager", defaultIndexType: db.BTreeIndex }, 100),
  c2: () => ordered({}, 100),
  c3: () => ordered({}),
  d1: () => joined("inner"),
  d2: included,
  d3: streamed,
  d4: () => joined("left"),
  e1: () => grouped(byAgent, ({ j }) => ({ agent: j.agent, n: count(j.id) }), sized(3_300)),
  e2: () => {
    const select = ({ j }) => {
      const [s, a, m] = [sum(j.priority), avg(j.priority), max(j.priority)]
      return { agent: j.agent, n: count(j.id), s, a, m }
    }
    return grouped(byAgent, select, sized(3_300))
  },
  e3: () => {
    const select = ({ j }) => ({ status: j.status, n: count(j.id), s: sum(j.priority) })
    return grouped(byStatus, select, sized(330))
  },
  f1: cold,
}

console.log(JSON.stringify(scenarios[process.argv[2]]()))
// Whatever is not settled would keep the process alive.
process.exit(0)
