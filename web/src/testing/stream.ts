// Streams as agents and compactions write them, at random.
import type { Random } from "./random"

interface Written {
  type?: string
  key?: string
  value?: Record<string, unknown>
  headers: Record<string, unknown>
}

/** A stream: what was ever written, and what is left of it. */
export class FakeStream {
  /** All that agents and people wrote, by position; nothing where a compaction wrote. */
  readonly written: (Written | undefined)[] = []
  /** What can be read. */
  readonly messages: unknown[] = []
  /** The position of the first of them. */
  first = 0
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  get tail(): number {
    return this.first + this.messages.length
  }

  /** Writes a few rounds of talk, with whatever goes wrong in between. */
  talk(rounds: number): void {
    for (let round = 0; round < rounds; round += 1) {
      if (this.#random.once(8)) this.compact()
      this.#say()
      if (this.#random.once(4)) this.#say()
      if (!this.#random.once(6)) this.#answer()
      if (this.#random.once(30)) this.#append({ headers: { control: "reset" } })
    }
  }

  /** Says something and begins to answer it, and no more. */
  begin(chunks: number): void {
    this.#say()
    const generationId = this.#beginGeneration()
    this.#write("step", "insert", step(generationId, 1, "started", 1, 0))
    for (let index = 0; index < chunks; index += 1) this.#chunk(generationId, 1, index)
  }

  #say(): void {
    const id = `m${this.tail}`
    const rest = { role: "user", actorId: "ada", createdAt: AT }
    const targetAgent = this.#random.once(5) ? null : "guide"
    this.#write("message", "insert", { id, content: `words ${id}`, targetAgent, ...rest })
  }

  #beginGeneration(): string {
    const id = `guide-${this.tail - 1}`
    this.#write("generation", "insert", generation(id, "generating", this.tail - 1))
    return id
  }

  #answer(): void {
    const id = this.#beginGeneration()
    const readUpTo = this.tail - 2
    let index = 0
    const turns = 1 + this.#random.below(3)
    for (let turn = 1; turn <= turns; turn += 1) {
      index = this.#turn(id, turn, index)
      // A person may say something while tools are at work.
      if (this.#random.once(3)) this.#say()
      if (this.#random.once(8)) return this.#end(id, "cancelled", readUpTo)
    }
    this.#end(id, this.#random.once(8) ? "failed" : "completed", readUpTo)
  }

  #turn(id: string, turn: number, first: number): number {
    let [index, attempt] = [first, 1]
    const chunks = () => {
      const last = index + this.#random.below(6)
      for (; index < last; index += 1) this.#chunk(id, turn, index)
    }
    this.#write("step", "insert", step(id, turn, "started", attempt, first))
    chunks()
    if (this.#random.once(5)) {
      // An attempt died: what it said is withdrawn.
      for (let gone = first; gone < index; gone += 1) this.#delete("chunk", `${id}:c${gone}`)
      attempt += 1
      this.#write("step", "update", step(id, turn, "started", attempt, index))
      chunks()
    }
    if (this.#random.once(10)) {
      this.#write("step", "update", step(id, turn, "cancelled", attempt, first))
      return index
    }
    this.#message(id, turn, attempt, first)
    return index
  }

  #message(generationId: string, turn: number, attempt: number, first: number): void {
    const id = `${generationId}:${turn}`
    const call = `${id}:0`
    const hasCall = this.#random.once(3)
    const parts = hasCall ? [{ type: "text" }, { type: "tool-call", id: call }] : null
    const rest = { role: "assistant", actorId: "guide", generationId, createdAt: AT, parts }
    const said = { id, content: `answer ${id}`, ...rest }
    this.#write("message", "insert", said)
    this.#write("step", "update", step(generationId, turn, "completed", attempt, first))
    if (hasCall) this.#call(call, id, generationId)
    if (this.#random.once(4)) this.#write("message", "update", { ...said, inReplyTo: "r" })
  }

  #call(id: string, messageId: string, generationId: string): void {
    const what = { id, name: "look", args: {}, effect: "pure", messageId, generationId }
    const row = (status: string, attempt: number) => {
      return { ...what, status, attempt, createdAt: AT, updatedAt: AT }
    }
    this.#write("toolCall", "insert", row("pending", 0))
    this.#write("claim", "insert", { id: `${id}#1@x` })
    this.#write("toolCall", "update", row("executing", 1))
    if (this.#random.once(3)) this.#say()
    this.#write("toolCall", "update", row(this.#random.once(4) ? "failed" : "completed", 1))
    // What comes after an end counts for nothing.
    if (this.#random.once(4)) this.#write("toolCall", "update", row("executing", 2))
  }

  #end(id: string, status: string, readUpTo: number): void {
    this.#write("generation", "update", generation(id, status, readUpTo))
    if (!this.#random.once(6)) return
    this.#write("generation", "update", generation(id, "failed", readUpTo))
  }

  #chunk(generationId: string, turn: number, index: number): void {
    const id = `${generationId}:c${index}`
    const of = { generationId, messageId: `${generationId}:${turn}` }
    this.#write("chunk", "insert", { id, ...of, index, type: "text", content: id })
  }

  #write(type: string, operation: string, value: Record<string, unknown> & { id: string }): void {
    this.#append({ type, key: value.id, value, headers: { operation } })
  }

  #delete(type: string, key: string): void {
    this.#append({ type, key, headers: { operation: "delete" } })
  }

  #append(message: Written): void {
    this.written[this.tail] = message
    this.messages.push(message)
  }

  /** Compacts the stream as ADR 12 has it; the snapshot may be cut off, the trim may be missing. */
  compact(): void {
    const { tail } = this
    // Everything from here on is written again as it was.
    const reach = this.#random.once(2) ? tail : this.#random.below(tail + 1)
    const all = rowsBefore(this.written.slice(0, reach))
    // Chunks of a message that lasts may be dropped.
    const said = new Set(all.map(({ message }) => message.type === "message" && message.key))
    const keepsChunks = this.#random.once(2)
    const rows = all.filter(
      ({ message }) => keepsChunks || message.type !== "chunk" || !said.has(messageOf(message)),
    )
    const header = (position: number) => ({ "headwater.position": String(position) })
    const at = (message: Written, position: number, more = {}) => {
      return { ...message, headers: { ...message.headers, ...header(position), ...more } }
    }
    const snapshot: unknown[] = [{ headers: { control: "snapshot-start", ...header(reach) } }]
    for (const { message, position, inserted } of rows) {
      const made = inserted === position ? {} : { "headwater.inserted": String(inserted) }
      snapshot.push(at(message, position, { operation: "upsert", ...made }))
    }
    this.written.slice(reach, tail).forEach((message, n) => {
      if (message) snapshot.push(at(message, reach + n))
    })
    const isWhole = !this.#random.once(3)
    const cut = this.#random.below(snapshot.length) + 1
    this.messages.push(...snapshot.slice(0, isWhole ? snapshot.length : cut))
    if (!isWhole) return
    this.messages.push({ headers: { control: "snapshot-end" } })
    if (this.#random.once(4)) return
    this.messages.splice(0, tail - this.first)
    this.first = tail
  }
}

const AT = "2026-01-01T00:00:00.000Z"

const generation = (id: string, status: string, readUpTo: number) => {
  return { id, status, readUpTo, agentName: "guide", model: "none", createdAt: AT, updatedAt: AT }
}

const step = (
  generationId: string,
  turn: number,
  status: string,
  attempt: number,
  firstChunk: number,
) => {
  const id = `${generationId}:${turn}`
  return { id, generationId, turn, status, attempt, firstChunk, startedAt: AT }
}

const messageOf = ({ value }: Written) => String(value?.["messageId"])

interface Row {
  message: Written
  position: number
  inserted: number
}

/** The rows that a compaction finds, in the order in which they were written last. */
function rowsBefore(written: readonly (Written | undefined)[]): Row[] {
  const rows = new Map<string, Row>()
  written.forEach((message, position) => {
    if (!message) return
    if (message.headers["control"] === "reset") return rows.clear()
    const name = `${message.type} ${message.key}`
    const old = rows.get(name)
    if (message.headers["operation"] === "delete") return void rows.delete(name)
    const status = String(old?.message.value?.["status"])
    const isOver = ["completed", "failed", "cancelled"].includes(status)
    if (old && isOver) return
    rows.set(name, { message, position, inserted: old?.inserted ?? position })
  })
  return [...rows.values()].sort((one, other) => one.position - other.position)
}
