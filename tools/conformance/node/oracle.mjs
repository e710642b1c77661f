// The npm package @tanstack/db as the left side of the differential test: one JSON command a line
// in, one JSON reply a line out, in order. `tools/conformance/src/differential` tells the protocol.
//
// Replies hold nothing random and no time. A sync with a refused write is given up as a whole, so
// that a refusal leaves nothing behind.
process.env.NODE_ENV = "production"
const db = await import("tanstack-db")
const { Aggregate, CollectionRef, Func, PropRef, QueryRef, Value } = db.IR

const STAMPS = new Set(["$hasPendingWrites", "$synced", "$origin", "$key", "$collectionId"])

const collections = new Map()
const queries = new Map()
const effects = new Map()
const transactions = new Map()
// What the current command made queries and effects say.
let said = { changes: {}, effects: {} }

const turn = () => new Promise((resolve) => setImmediate(resolve))
const forget = () => {}

// A row as people wrote it: fields in order of their names, without those the package adds.
function plain(value) {
  if (value === null || typeof value !== "object") return value
  if (Array.isArray(value)) return value.map(plain)
  const names = Object.keys(value).filter((name) => !STAMPS.has(name) && value[name] !== undefined)
  return Object.fromEntries(names.sort().map((name) => [name, plain(value[name])]))
}

function listen(kind, name) {
  return (events) => {
    const batch = events.map(({ type, key, value, previousValue }) => {
      return { type, key, value: plain(value), prev: plain(previousValue) }
    })
    const batches = (said[kind][name] ??= [])
    batches.push(batch)
  }
}

function toExpression(json) {
  if ("ref" in json) return new PropRef(json.ref)
  if ("val" in json) return new Value(json.val)
  const args = json.args.map(toExpression)
  return "agg" in json ? new Aggregate(json.agg, args) : new Func(json.fn, args)
}

function toSource({ col, query, as }) {
  return query ? new QueryRef(toIr(query), as) : new CollectionRef(found(collections, col).rows, as)
}

function toJoin(json) {
  const pairs = json.on.map((pair) => new Func("eq", pair.map(toExpression)))
  const on = pairs.length === 1 ? pairs[0] : new Func("and", pairs)
  return { from: toSource(json), type: json.type, on }
}

function toOrder({ expr, dir = "asc", nulls = "first" }) {
  const compareOptions = { direction: dir, nulls, stringSort: "lexical" }
  return { expression: toExpression(expr), compareOptions }
}

function toSelect(select) {
  const fields = Object.entries(select)
  return Object.fromEntries(fields.map(([name, json]) => [name, toExpression(json)]))
}

function toIr(json) {
  const ir = { from: toSource(json.from) }
  if (json.join) ir.join = json.join.map(toJoin)
  if (json.select) ir.select = toSelect(json.select)
  if (json.orderBy) ir.orderBy = json.orderBy.map(toOrder)
  if (json.distinct) ir.distinct = true
  for (const clause of ["where", "groupBy", "having"]) {
    if (json[clause]) ir[clause] = json[clause].map(toExpression)
  }
  for (const bound of ["limit", "offset"]) {
    if (json[bound] !== undefined) ir[bound] = json[bound]
  }
  return ir
}

function toQuery(json) {
  return new db.BaseQueryBuilder(toIr(json))
}

// The thing of this name; a name nobody gave is a TypeError.
function found(things, name) {
  if (!things.has(name)) throw new TypeError(`nothing is called ${name}`)
  return things.get(name)
}

function write(writer, { writes = [], truncate }) {
  writer.begin()
  try {
    if (truncate) writer.truncate()
    for (const change of writes) writer.write(change)
  } catch (error) {
    writer.commit(AbortSignal.abort())?.catch?.(forget)
    throw error
  }
  return writer.commit() === true
}

function mutate({ col, type, key, value, set }) {
  const { rows } = found(collections, col)
  if (type === "insert") rows.insert(value)
  else if (type === "update") rows.update(key, (draft) => Object.assign(draft, set))
  else rows.delete(key)
}

const commands = {
  collection({ name, key = "id", init = [] }) {
    let writer
    const never = () => new Promise(forget)
    const rows = db.createCollection({
      id: name,
      getKey: (row) => row[key],
      startSync: true,
      gcTime: 0,
      defaultStringCollation: { stringSort: "lexical" },
      onInsert: never,
      onUpdate: never,
      onDelete: never,
      sync: {
        rowUpdateMode: "full",
        sync(handed) {
          writer = handed
          write(writer, { writes: init.map((value) => ({ type: "insert", value })) })
          writer.markReady()
        },
      },
    })
    collections.set(name, { rows, writer })
    return {}
  },

  query({ name, ir }) {
    const settings = { id: name, startSync: true, gcTime: 0, query: toQuery(ir) }
    const rows = db.createLiveQueryCollection(settings)
    queries.set(name, rows)
    rows.subscribeChanges(listen("changes", name), { includeInitialState: true })
    return {}
  },

  effect({ name, ir, skipInitial = false }) {
    const onBatch = listen("effects", name)
    effects.set(name, db.createEffect({ id: name, skipInitial, query: toQuery(ir), onBatch }))
    return {}
  },

  sync(command) {
    return { applied: write(found(collections, command.col).writer, command) }
  },

  begin({ tx }) {
    let settle
    const settled = new Promise((resolve, reject) => {
      settle = (ok) => (ok ? resolve() : reject(new Error("settled as failed")))
    })
    settled.catch(forget)
    const settings = { id: tx, autoCommit: false, mutationFn: () => settled }
    const transaction = db.createTransaction(settings)
    transaction.isPersisted.promise.catch(forget)
    transactions.set(tx, { transaction, settle })
    return {}
  },

  mutate({ tx, muts }) {
    const { transaction } = found(transactions, tx)
    transaction.mutate(() => muts.forEach(mutate))
    return { state: transaction.state }
  },

  commit({ tx }) {
    found(transactions, tx).transaction.commit().catch(forget)
    return {}
  },

  async settle({ tx, ok }) {
    const { transaction, settle } = found(transactions, tx)
    settle(ok)
    await turn()
    return { state: transaction.state }
  },

  rollback({ tx }) {
    const { transaction } = found(transactions, tx)
    transaction.rollback()
    return { state: transaction.state }
  },

  dump({ what }) {
    const rows = (name) => queries.get(name) ?? found(collections, name).rows
    return { rows: Object.fromEntries(what.map((name) => [name, rows(name).toArray.map(plain)])) }
  },

  async reset() {
    for (const { transaction } of transactions.values()) {
      if (["pending", "persisting"].includes(transaction.state)) transaction.rollback()
    }
    for (const effect of effects.values()) await effect.dispose()
    for (const rows of queries.values()) await rows.cleanup()
    for (const { rows } of collections.values()) await rows.cleanup()
    for (const things of [transactions, effects, queries, collections]) things.clear()
    said = { changes: {}, effects: {} }
    return {}
  },
}

async function answer(line) {
  const command = JSON.parse(line)
  said = { changes: {}, effects: {} }
  let reply
  try {
    reply = await commands[command.op](command)
  } catch (error) {
    reply = { error: error.constructor.name }
  }
  // Ordered effects speak a turn later; a dump changes nothing, so nobody speaks after it.
  if (command.op !== "dump") await turn()
  for (const kind of ["changes", "effects"]) {
    if (Object.keys(said[kind]).length > 0) reply[kind] = said[kind]
  }
  return JSON.stringify(reply) + "\n"
}

let rest = ""
process.stdin.setEncoding("utf8")
for await (const chunk of process.stdin) {
  const lines = (rest + chunk).split("\n")
  rest = lines.pop()
  // One write for all that came together: whoever sends a whole trace reads a whole reply.
  let replies = ""
  for (const line of lines) if (line.trim()) replies += await answer(line)
  process.stdout.write(replies)
}
