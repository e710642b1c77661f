// The clients that people use, unmodified, against our server.
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"
import { createStateSchema, MaterializedState } from "@durable-streams/state"
import { createStreamDB } from "@durable-streams/state/db"
import { describe, expect, test } from "vitest"

const url = () => `${process.env.CONFORMANCE_URL}/v1/stream/interop/${randomUUID()}`
const json = "application/json"

// Says what it was given: the smallest schema that Standard Schema allows.
const anything = { "~standard": { version: 1, vendor: "headwater", validate: (value) => ({ value }) } }

const schema = createStateSchema({
  messages: { schema: anything, type: "message", primaryKey: "id" },
  runs: { schema: anything, type: "run", primaryKey: "id" },
})

const row = (collection, id, value, txid) =>
  collection.insert({ key: id, value: { id, ...value }, headers: { txid } })

async function text(response) {
  return new TextDecoder().decode(await response.body())
}

describe("@durable-streams/client", () => {
  test("makes a stream, appends, reads it back and looks at it", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: "text/plain" })
    await handle.append("one ")
    await handle.append("two")
    expect(await text(await stream({ url: handle.url, live: false }))).toBe("one two")
    const head = await DurableStream.head({ url: handle.url })
    expect(head.exists).toBe(true)
    expect(head.contentType).toContain("text/plain")
    const rest = await stream({ url: handle.url, live: false, offset: head.offset })
    expect(await text(rest)).toBe("")
    await DurableStream.delete({ url: handle.url })
    expect((await DurableStream.head({ url: handle.url })).exists).toBe(false)
  })

  for (const live of ["sse", "long-poll", true]) {
    test(`follows by ${live} what was there and what comes, to the end`, async () => {
      const handle = await DurableStream.create({ url: url(), contentType: json })
      await handle.append(JSON.stringify({ n: 0 }))
      const response = await stream({ url: handle.url, live, offset: "-1" })
      const seen = []
      const following = new Promise((resolve, reject) => {
        response.subscribeJson(async (batch) => {
          seen.push(...batch.items)
          if (batch.items.length > 0 && seen.length < 5) {
            await handle.append(JSON.stringify({ n: seen.length }))
          }
          if (seen.length === 5) await handle.close()
        })
        response.closed.then(resolve, reject)
      })
      await following
      expect(seen).toEqual([0, 1, 2, 3, 4].map((n) => ({ n })))
      expect(response.streamClosed).toBe(true)
    })
  }

  test("produces exactly once, in order, from two lives", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: json })
    const write = async (epoch, from) => {
      const options = { epoch, maxInFlight: 5, maxBatchBytes: 64, lingerMs: 0 }
      const producer = new IdempotentProducer(handle, "writer", options)
      // A new epoch begins with sequence 0, and the protocol answers 400 to a later one that
      // overtakes it, which this client takes for final: so the first goes alone.
      producer.append(JSON.stringify({ n: from }))
      await producer.flush()
      for (let n = from + 1; n < from + 100; n++) producer.append(JSON.stringify({ n }))
      await producer.flush()
      await producer.detach()
    }
    await write(0, 0)
    await write(1, 100)
    const items = await (await stream({ url: handle.url, live: false })).json()
    expect(items).toEqual([...Array(200).keys()].map((n) => ({ n })))
    const fenced = new IdempotentProducer(handle, "writer", { epoch: 0, lingerMs: 0 })
    const failed = new Promise((resolve) => fenced.flush().then(() => resolve(null), resolve))
    fenced.append(JSON.stringify({ n: -1 }))
    await fenced.flush().catch(() => {})
    await failed
    await fenced.detach().catch(() => {})
    const after = await (await stream({ url: handle.url, live: false })).json()
    expect(after).toHaveLength(200)
  })

  test("resumes from the offset it left at", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: json })
    for (let n = 0; n < 10; n++) await handle.append(JSON.stringify({ n }))
    const first = await stream({ url: handle.url, live: false })
    expect(await first.json()).toHaveLength(10)
    await handle.append(JSON.stringify({ n: 10 }))
    const second = await stream({ url: handle.url, live: false, offset: first.offset })
    expect(await second.json()).toEqual([{ n: 10 }])
  })
})

describe("@durable-streams/state", () => {
  test("a StreamDB shows what was written, and knows when a transaction is in", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: json })
    await handle.append(JSON.stringify(row(schema.messages, "m1", { text: "before" }, "tx-0")))
    const streamOptions = { url: handle.url, contentType: json }
    const db = createStreamDB({ streamOptions, state: schema, live: "sse" })
    await db.preload()
    expect(db.collections.messages.get("m1")).toMatchObject({ text: "before" })
    const events = [
      row(schema.messages, "m2", { text: "after" }, "tx-1"),
      row(schema.runs, "r1", { status: "running" }, "tx-1"),
    ]
    // One transaction is one append: the client's own `append` would send two.
    const transaction = { method: "POST", headers: { "content-type": json }, body: JSON.stringify(events) }
    const [, answer] = await Promise.all([
      db.utils.awaitTxId("tx-1", 10_000),
      fetch(handle.url, transaction),
    ])
    expect(answer.ok).toBe(true)
    expect(db.collections.messages.get("m2")).toMatchObject({ text: "after" })
    expect(db.collections.runs.get("r1")).toMatchObject({ status: "running" })
    const gone = schema.messages.delete({ key: "m1", headers: { txid: "tx-2" } })
    await Promise.all([db.utils.awaitTxId("tx-2", 10_000), handle.append(JSON.stringify(gone))])
    expect(db.collections.messages.has("m1")).toBe(false)
    db.close()
  })

  test("two StreamDBs of one stream show the same, by events and by long-polls", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: json })
    const streamOptions = { url: handle.url, contentType: json }
    const dbs = ["sse", "long-poll"].map((live) =>
      createStreamDB({ streamOptions, state: schema, live }),
    )
    await Promise.all(dbs.map((db) => db.preload()))
    for (let n = 0; n < 20; n++) {
      const event = row(schema.messages, `m${n % 5}`, { n }, `tx-${n}`)
      await handle.append(JSON.stringify(event))
    }
    await Promise.all(dbs.map((db) => db.utils.awaitTxId("tx-19", 10_000)))
    const shown = dbs.map((db) =>
      db.collections.messages.toArray.map(({ id, n }) => ({ id, n })).sort((a, b) => a.n - b.n),
    )
    expect(shown[0]).toEqual([15, 16, 17, 18, 19].map((n) => ({ id: `m${n % 5}`, n })))
    expect(shown[1]).toEqual(shown[0])
    dbs.forEach((db) => db.close())
  })

  for (const held of [[], ["--keep-from", "10"]]) {
    test(`rows stay what they are in a stream that is compacted ${held.join(" ")}`, async () => {
      const handle = await DurableStream.create({ url: url(), contentType: json })
      const streamOptions = { url: handle.url, contentType: json }
      const connected = createStreamDB({ streamOptions, state: schema, live: "sse" })
      await connected.preload()
      for (let n = 0; n < 20; n++) {
        const event = row(schema.messages, `m${n % 5}`, { n }, `tx-${n}`)
        await handle.append(JSON.stringify(event))
      }
      const gone = schema.messages.delete({ key: "m3", headers: { txid: "gone" } })
      await Promise.all([connected.utils.awaitTxId("gone", 10_000), handle.append(JSON.stringify(gone))])
      const path = handle.url.split("/v1/stream/")[1]
      const compact = ["stream", "compact", path, "--url", process.env.CONFORMANCE_URL, "--json", ...held]
      const told = JSON.parse(execFileSync(process.env.CONFORMANCE_BINARY, compact))
      expect(told).toMatchObject({ outcome: "compacted", messagesBefore: 21 })
      const last = row(schema.messages, "m9", { n: 99 }, "last")
      await Promise.all([connected.utils.awaitTxId("last", 10_000), handle.append(JSON.stringify(last))])
      const fresh = createStreamDB({ streamOptions, state: schema, live: "sse" })
      await fresh.preload()
      for (const db of [connected, fresh]) {
        const shown = db.collections.messages.toArray.map(({ id, n }) => [id, n]).sort()
        expect(shown).toEqual([["m0", 15], ["m1", 16], ["m2", 17], ["m4", 19], ["m9", 99]])
        db.close()
      }
    })
  }

  test("MaterializedState folds what our server gives back", async () => {
    const handle = await DurableStream.create({ url: url(), contentType: json })
    const update = { id: "r1", status: "done" }
    await handle.append(JSON.stringify(row(schema.runs, "r1", { status: "running" }, "a")))
    await handle.append(JSON.stringify(schema.runs.update({ key: "r1", value: update })))
    const state = new MaterializedState()
    const events = await (await stream({ url: handle.url, live: false })).json()
    events.forEach((event) => state.apply(event))
    expect(state.get("run", "r1")).toMatchObject({ status: "done" })
  })
})
