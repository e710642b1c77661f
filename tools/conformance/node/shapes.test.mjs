// Electric's own client and our source read the same server of shapes, and both must come to the
// rows of its table: so the server is one that this client accepts, and our source is one that
// reads it as this client does.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { Shape, ShapeStream } from "@electric-sql/client"
import { afterEach, describe, expect, test } from "vitest"

const driver = process.env.CONFORMANCE_ELECTRIC_DRIVER
const patience = { timeout: 30_000, interval: 20 }
const ends = []

afterEach(() => ends.splice(0).forEach((end) => end()))

function child(...words) {
  const started = spawn(driver, words, { stdio: ["pipe", "pipe", "inherit"] })
  ends.push(() => started.kill())
  return createInterface({ input: started.stdout })
}

class Server {
  static async start() {
    const server = new Server()
    ;[server.url] = await once(child("serve"), "line")
    return server
  }
  async post(path, body) {
    const answer = await fetch(new URL(path, this.url), { method: "POST", body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(await answer.text())
    return answer.text()
  }
  transact = (...operations) => this.post("/transact", operations)
  rotate = () => this.post("/rotate", null)
  fail = (fault) => this.post("/fail", fault)
  async rows() {
    return (await fetch(new URL("/rows", this.url))).json()
  }
}

const insert = (id, text, more = {}) => ({ insert: { id: `${id}`, text, done: "f", ...more } })
const update = (id, set) => ({ update: { id: `${id}`, set } })
const remove = (id) => ({ delete: `${id}` })

// JSON in which whole numbers of any size keep their digits, as our program prints it.
function exact(value, name) {
  if (Array.isArray(value)) return `[${value.map((one) => exact(one)).join(",")}]`
  if (typeof value === "bigint") return `${value}`
  if (name === "score" && Number.isInteger(value)) return `${value}.0`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  const fields = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${exact(value[key], key)}`)
  return `{${fields.join(",")}}`
}

const byId = (left, right) => (BigInt(left.id) < BigInt(right.id) ? -1 : 1)

// What the table says, as far as texts and typed values can be compared without reading them.
const plain = (row) => [`${row.id}`, row.text, row.amount, row.owner]

// Both clients on one server.
class Both {
  emptied = 0
  shown = []
  isWanted = () => true
  constructor(server, { replica = "default", liveSse = false, words, stream: more } = {}) {
    this.server = server
    const aborter = new AbortController()
    const stream = new ShapeStream({
      url: server.url,
      params: { table: "todos", replica },
      liveSse,
      signal: aborter.signal,
      backoffOptions: { initialDelay: 10, maxDelay: 50, multiplier: 2 },
      onError: () => ({}),
      ...more,
    })
    this.theirs = new Shape(stream)
    ends.push(() => aborter.abort())
    words ??= ["follow", server.url, replica === "full" && "full", liveSse && "events"].filter(Boolean)
    child(...words).on("line", (line) => {
      this.ours = line
      if (line === "[]") this.emptied += 1
    })
  }
  // Both come to the rows of the table.
  async agree() {
    const truth = (await this.server.rows()).filter(this.isWanted).map(plain).sort()
    const theirs = () => this.theirs.currentRows.filter(this.isWanted).sort(byId)
    await expect.poll(() => theirs().map(plain).sort(), patience).toEqual(truth)
    await expect.poll(() => this.ours, patience).toBe(exact(theirs()))
    return theirs()
  }
}

// A part of a table, asked for when it is wanted, by both clients.
class BothOnDemand extends Both {
  constructor(server, owner) {
    super(server, {
      words: ["demand", server.url, owner],
      stream: { log: "changes_only", offset: "now", subsetMethod: "POST" },
      replica: "full",
    })
    this.owner = owner
  }
  async ask() {
    await this.theirs.requestSnapshot({ where: '"owner" = $1', params: { 1: this.owner } })
  }
  isWanted = (row) => row.owner === this.owner
}

const many = (count, text) => [...Array(count).keys()].map((n) => insert(n + 1, `${text}${n}`))

for (const options of [{}, { replica: "full" }, { liveSse: true }]) {
  describe(`a shape, read with ${JSON.stringify(options)}`, () => {
    test("comes in several pages, and every kind of column is the same", async () => {
      const server = await Server.start()
      const odd = {
        done: "t", score: "0.1", amount: "12345678901234567890.10", owner: "ada",
        tags: '{a,NULL,"b,c","d\\"e"}', meta: '{"a": [1, null, {"b": "ü"}]}',
      }
      await server.transact(...many(10, "t"), insert("9007199254740993", 'x "y" ü', odd))
      const rows = await new Both(server, options).agree()
      expect(rows).toHaveLength(11)
      expect(rows[10].id).toBe(9007199254740993n)
    })

    test("follows inserts, updates of some columns, deletes and new keys", async () => {
      const server = await Server.start()
      await server.transact(...many(4, "t"))
      const both = new Both(server, options)
      await both.agree()
      await server.transact(insert(5, "five", { meta: "[1]" }), update(1, { owner: "ada" }))
      await both.agree()
      await server.transact(update(1, { text: "one", score: "2" }), update(5, { owner: "bob" }), remove(2))
      await both.agree()
      await server.transact(update(3, { id: "33" }), update(1, { owner: null }))
      const rows = await both.agree()
      expect(rows.map((row) => row.id)).toEqual([1n, 4n, 5n, 33n])
      expect(rows[0]).toMatchObject({ text: "one", score: 2, owner: null })
    })

    test("is read again when its log is given up, and is not empty meanwhile", async () => {
      const server = await Server.start()
      await server.transact(...many(7, "t"))
      const both = new Both(server, options)
      await both.agree()
      await server.rotate()
      await server.transact(remove(1), insert(8, "eight"))
      await both.agree()
      await server.rotate()
      await server.transact(update(8, { text: "again" }))
      await both.agree()
      expect(both.emptied).toBe(0)
    })

    test("survives refusals that pass, before and after the first rows", async () => {
      const server = await Server.start()
      await server.transact(...many(5, "t"))
      for (const status of [429, 500, 503, 429, 502, 500]) await server.fail({ status })
      const both = new Both(server, options)
      await both.agree()
      for (const status of [429, 503, 500, 429]) await server.fail({ status })
      await server.transact(insert(6, "six"))
      await both.agree()
    })
  })
}

test("a shape survives connections that break in the middle of a body", async () => {
  const server = await Server.start()
  await server.transact(...many(8, "t"))
  for (const cut of [0, 10, 200, 300]) await server.fail({ cut })
  const both = new Both(server)
  await both.agree()
  for (const cut of [5, 50]) await server.fail({ cut })
  await server.transact(update(1, { text: "cut" }), remove(2))
  await both.agree()
})

test("a subset is loaded on demand, and followed from there", async () => {
  const server = await Server.start()
  const owned = (id, owner) => insert(id, `t${id}`, { owner, score: "0.5" })
  await server.transact(...[...Array(9).keys()].map((id) => owned(id, ["ada", "bob", "eve"][id % 3])))
  const both = new BothOnDemand(server, "ada")
  await both.ask()
  expect(await both.agree()).toHaveLength(3)
  await server.transact(update(0, { text: "zero" }), remove(3), owned(9, "ada"), owned(10, "bob"))
  expect(await both.agree()).toHaveLength(3)
  await server.transact(update(6, { owner: "bob" }))
  expect(await both.agree()).toHaveLength(2)
})
