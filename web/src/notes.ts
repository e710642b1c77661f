// From what lies in the stream to what the page has a use for.
//
// Each message is looked at once, when it is read: rows that the page does not show or that break
// their contract are left out, and the others are told where they stand.
import { isRow } from "./rows.gen"
import type { Rows } from "./rows.gen"

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

/** A row, and where it was made. */
export type Placed<Row> = Row & { position: number }

/** One message of the stream that matters here. */
export type Note = RowNote | MarkNote

/** A row was written, or deleted if there is no value. */
export interface RowNote {
  kind: "row"
  /** Where the message stands: where it was written first, also if a compaction wrote it again. */
  stands: number
  /** Where the message is in the stream. */
  lies: number
  type: Shown
  key: string
  /** Where the row was made, if a snapshot says so. */
  inserted?: number
  value?: Rows[Shown]
  /** What it weighs, about. */
  bytes: number
}

/**
 * `reset` voids all rows before it. `snapshot-end` says that the snapshot before it is whole, and
 * `break` that something else follows it, so that it counts for nothing.
 */
export interface MarkNote {
  kind: "reset" | "snapshot-end" | "break"
  stands: number
  lies: number
}

/** Whether a compaction wrote it again. */
export const isAgain = (note: Note) => note.stands !== note.lies

/** Where a message stood before a compaction wrote it again, and where its row was made. */
const POSITION_HEADER = "headwater.position"
const INSERTED_HEADER = "headwater.inserted"

/** What these messages say, the first of which lies at `first`. */
export function readNotes(items: readonly unknown[], first: number, bytes: number): Note[] {
  const bytesEach = bytes / Math.max(items.length, 1)
  let wasAgain = false
  return items.flatMap((item, n): Note[] => {
    const headers = headersOf(item)
    const lies = first + n
    const stands = standsAt(headers, lies)
    const note = readNote(item, headers, { lies, stands, bytes: bytesEach })
    const isCopy = stands !== lies
    // What is left out may still say that a snapshot was not finished.
    const isBreak = headers["control"] === "snapshot-start" || (wasAgain && !isCopy)
    wasAgain = isCopy
    if (note) return [note]
    return isBreak ? [{ kind: "break", stands: lies, lies }] : []
  })
}

function readNote(
  item: unknown,
  headers: Record<string, unknown>,
  place: { lies: number; stands: number; bytes: number },
): Note | undefined {
  const { control, operation } = headers
  if (control === "reset" || control === "snapshot-end") {
    return { kind: control, lies: place.lies, stands: place.stands }
  }
  const change = item as { type?: unknown; key?: unknown; value?: unknown } | null
  const type = SHOWN.find((type) => type === change?.type)
  const key = change?.key
  if (!type || typeof key !== "string" || typeof operation !== "string") return undefined
  const row = { kind: "row" as const, ...place, type, key }
  if (operation === "delete") return row
  const value = change?.value
  if (!isRow[type](value)) {
    console.warn(`a row of type ${type} breaks its contract and is left out`, key)
    return undefined
  }
  const inserted = positionIn(headers[INSERTED_HEADER])
  return { ...row, value, ...(inserted !== undefined && { inserted }) }
}

/** Nothing stands behind itself: a header that says so means nothing, as `state::Places` has it. */
function standsAt(headers: Record<string, unknown>, lies: number): number {
  if (headers["control"] === "snapshot-start") return lies
  const said = positionIn(headers[POSITION_HEADER])
  return said !== undefined && said < lies ? said : lies
}

function positionIn(header: unknown): number | undefined {
  return typeof header === "string" && /^\d{1,16}$/.test(header) ? Number(header) : undefined
}

function headersOf(item: unknown): Record<string, unknown> {
  const headers = (item as { headers?: unknown } | null)?.headers
  return typeof headers === "object" && headers !== null ? (headers as Record<string, unknown>) : {}
}
