// From what lies in the stream to what the page's collections hold.
//
// `@durable-streams/state` folds whatever comes, gives rows no position and stumbles over rows that
// are no objects. So each message is looked at here first: rows that the page has no use for or
// that break their contract are left out, and the others are told where they stand.
import type { Collection, NonSingleResult } from "@tanstack/db"
import { isRow } from "./rows.gen"
import type { Rows } from "./rows.gen"
import type { Batch } from "./follow"

/** The types that the page shows. */
export const SHOWN = [
  "message",
  "generation",
  "step",
  "chunk",
  "toolCall",
  "stop",
  "resolution",
] as const satisfies (keyof Rows)[]

export type Shown = (typeof SHOWN)[number]

/** A row, and where it stands in the stream. */
export type Placed<Row> = Row & { position: number }

/** The rows of a type. */
export type Table<Row> = Collection<Placed<Row>, string> & NonSingleResult

interface Change {
  type: string
  key: string
  value?: unknown
  headers: Record<string, unknown>
}

/** Where a message stood before a compaction wrote it again, and where its row was made. */
const POSITION_HEADER = "headwater.position"
const INSERTED_HEADER = "headwater.inserted"

export class Admission {
  /** All before this position is known, whoever writes it again. */
  #covered = 0
  /** The rows there are, so that a reset can take them away, and how far those are that end. */
  readonly #rows = new Map<Shown, Map<string, Progress>>(SHOWN.map((type) => [type, new Map()]))

  /** The batch as the collections should see it. */
  admit(batch: Batch): Batch {
    const first = positionOf(batch.offset) - batch.items.length
    const said = new Set(batch.items.flatMap((item) => (isChange(item, "message") ? item.key : [])))
    const items = batch.items.flatMap((item, n): unknown[] => {
      // Where a snapshot starts it says how far its rows reach, not where it stands.
      if (isControl(item, "snapshot-start")) return []
      const stands = Number(headersOf(item)[POSITION_HEADER] ?? first + n)
      if (stands < this.#covered) return []
      this.#covered = stands + 1
      if (isControl(item, "reset")) return this.#withdrawAll()
      if (!isShown(item)) return []
      // Whoever has a message needs its chunks no more.
      if (item.type === "chunk" && said.has(String(messageOf(item)))) return []
      return this.#admit(item, stands)
    })
    return { ...batch, items }
  }

  #admit(change: Change & { type: Shown }, stands: number): Change[] {
    const { type, key, value, headers } = change
    if (headers["operation"] === "delete") {
      this.#rows.get(type)?.delete(key)
      return [change]
    }
    if (!isRow[type](value)) {
      console.warn(`a row of type ${type} breaks its contract and is left out`, key)
      return []
    }
    const rows = this.#rows.get(type)
    const next = value as Progress
    if (!mayBecome(rows?.get(key), next)) {
      console.warn(`a row of type ${type} comes too late and is left out`, key)
      return []
    }
    const { status, attempt, isLate } = next
    rows?.set(key, { status, attempt, isLate })
    const position = Number(headers[INSERTED_HEADER] ?? stands)
    return [{ ...change, value: { ...value, position } }]
  }

  #withdrawAll(): Change[] {
    const headers = { operation: "delete" }
    return [...this.#rows].flatMap(([type, rows]) => {
      const changes = [...rows.keys()].map((key) => ({ type, key, headers }))
      rows.clear()
      return changes
    })
  }
}

/** What rows that come to an end say of it. */
interface Progress {
  status?: unknown
  attempt?: unknown
  isLate?: unknown
}

const ENDS = new Set<unknown>(["completed", "failed", "cancelled"])

/**
 * Whether a row may take the place of another, as `agent::rows` has it: an end is for ever, but for
 * an answer that is kept though it came late, and an attempt tells nothing of a later one.
 */
function mayBecome(old: Progress | undefined, next: Progress): boolean {
  if (old === undefined) return true
  const isCancelled = next.status === "cancelled"
  if (ENDS.has(old.status)) {
    return old.status === "cancelled" && isCancelled && next.isLate === true && !old.isLate
  }
  return isCancelled || Number(next.attempt ?? 0) >= Number(old.attempt ?? 0)
}

/** Our offsets begin with the position of the next message. */
function positionOf(offset: string): number {
  return Number.parseInt(offset, 10)
}

function headersOf(item: unknown): Record<string, unknown> {
  const headers = (item as { headers?: unknown } | null)?.headers
  return typeof headers === "object" && headers !== null ? (headers as Record<string, unknown>) : {}
}

function isControl(item: unknown, control: string): boolean {
  return headersOf(item)["control"] === control
}

function isChange(item: unknown, type: string): item is Change {
  const change = item as Partial<Change> | null
  return change?.type === type && typeof change.key === "string" && "operation" in headersOf(change)
}

function isShown(item: unknown): item is Change & { type: Shown } {
  return SHOWN.some((type) => isChange(item, type))
}

function messageOf(change: Change): unknown {
  return (change.value as { messageId?: unknown } | null | undefined)?.messageId
}
