// A session as the page has it: collections that follow its stream.
import type { DurableStream } from "@durable-streams/client"
import { createStateSchema, createStreamDB } from "@durable-streams/state/db"
import { Access, whoAmI } from "./access"
import { Actions } from "./actions"
import { Admission } from "./admission"
import type { Table } from "./admission"
import { follow } from "./follow"
import type { Batch, Connection } from "./follow"
import { Growth } from "./growth"
import type { Chunk, Generation, Message, Resolution, Step, Stop, ToolCall } from "./rows.gen"
import { Store } from "./store"

export interface Collections {
  messages: Table<Message>
  generations: Table<Generation>
  steps: Table<Step>
  chunks: Table<Chunk>
  toolCalls: Table<ToolCall>
  stops: Table<Stop>
  resolutions: Table<Resolution>
}

export interface Session {
  id: string
  /** Who is at the page. */
  me: string
  collections: Collections
  /** The texts that grow. */
  growth: Growth
  actions: Actions
  /** How the stream is being read. */
  connection: Store<Connection>
  close(): void
}

/** Opens the session of this name, and makes it if it does not exist. */
export function openSession(id: string): Session {
  const sessionUrl = new URL(`/v1/sessions/${encodeURIComponent(id)}`, location.href).href
  const streamUrl = new URL(`/v1/stream/main/sessions/${encodeURIComponent(id)}`, location.href)
    .href
  const me = whoAmI()
  const access = new Access(sessionUrl, me)
  const connection = new Store<Connection>("connecting")
  const db = createStreamDB({ stream: source(streamUrl, access, connection), state, live: "sse" })
  const collections = db.collections as unknown as Collections
  const growth = new Growth(collections.chunks)
  const actions = new Actions(sessionUrl, access, collections.messages)
  connection.subscribe(() => {
    if (connection.get() === "outrun") location.reload()
  })
  // It only ends with the page, and `connection` tells how it goes.
  db.preload().catch(() => undefined)
  return { id, me, collections, growth, actions, connection, close: () => db.close() }
}

/** Rows are looked at before they come to a collection, so that its schema has nothing to say. */
const anything = {
  "~standard": {
    version: 1 as const,
    vendor: "headwater",
    validate: (value: unknown) => ({ value }),
  },
}

const rowsOf = (type: string) => ({ type, primaryKey: "id", schema: anything })

const state = createStateSchema({
  messages: rowsOf("message"),
  generations: rowsOf("generation"),
  steps: rowsOf("step"),
  chunks: rowsOf("chunk"),
  toolCalls: rowsOf("toolCall"),
  stops: rowsOf("stop"),
  resolutions: rowsOf("resolution"),
})

/** What `createStreamDB` uses of a stream, on top of `follow`. */
function source(url: string, access: Access, connection: Store<Connection>): DurableStream {
  const stream = ({ signal }: { signal: AbortSignal }) => {
    const admission = new Admission()
    const subscribeJson = (onBatch: (batch: Batch) => unknown) => {
      const follower = {
        onBatch: (batch: Batch) => void onBatch(admission.admit(batch)),
        onConnection: (now: Connection) => connection.set(now),
      }
      void follow(url, access, follower, signal)
    }
    return Promise.resolve({ offset: "-1", closed: Promise.resolve(), subscribeJson })
  }
  return { url, stream } as unknown as DurableStream
}
