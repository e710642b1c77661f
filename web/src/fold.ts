// The fold: rows out of notes, as docs/rows.md says.
import { isAgain } from "./notes"
import type { Note, Placed, RowNote, Shown } from "./notes"
import type { Chunk, Rows } from "./rows.gen"

export type Tables = { [Type in Shown]: Map<string, Placed<Rows[Type]>> }

/** What a note has changed. */
export type Change = "rows" | "chunks" | "nothing"

/** Whether a snapshot counts whose end is not among the notes. */
export type OpenSnapshot = "counts" | "counts for nothing"

export class Fold {
  readonly tables: Tables = {
    message: new Map(),
    generation: new Map(),
    step: new Map(),
    chunk: new Map(),
    toolCall: new Map(),
    stop: new Map(),
    resolution: new Map(),
  }

  /** The rows that these notes make, which lie one after another. */
  static of(notes: readonly Note[], open: OpenSnapshot): Fold {
    const fold = new Fold()
    for (const note of inOrder(notes, open)) fold.take(note)
    return fold
  }

  /** Takes the next note, which stands after all others. */
  take(note: Note): Change {
    if (note.kind === "reset") {
      for (const table of Object.values(this.tables)) table.clear()
      return "rows"
    }
    return note.kind === "row" ? this.#row(note) : "nothing"
  }

  #row({ type, key, value, stands, inserted }: RowNote): Change {
    const table = this.tables[type] as Map<string, Placed<Rows[Shown]>>
    const old = table.get(key)
    const change = type === "chunk" ? "chunks" : "rows"
    if (value === undefined) return table.delete(key) ? change : "nothing"
    if (type === "chunk" && this.#isSaid(value as Chunk)) return "nothing"
    if (!mayBecome(old as Progress | undefined, value as Progress)) return "nothing"
    table.set(key, { ...value, position: old?.position ?? inserted ?? stands })
    if (type === "message") this.#forgetChunks(key)
    return change
  }

  #forgetChunks(message: string): void {
    for (const [key, { messageId }] of this.tables.chunk) {
      if (messageId === message) this.tables.chunk.delete(key)
    }
  }

  /** The chunks of a message that is there are of no use. */
  #isSaid({ messageId }: Chunk): boolean {
    return messageId != null && this.tables.message.has(messageId)
  }
}

/**
 * The notes that count, each once, by where they stand. A compaction writes rows again; what it
 * wrote counts once the snapshot is whole.
 */
function inOrder(notes: readonly Note[], open: OpenSnapshot): Note[] {
  const counted: Note[] = []
  let snapshot: Note[] = []
  for (const note of notes) {
    if (isAgain(note)) {
      snapshot.push(note)
      continue
    }
    if (note.kind === "snapshot-end") counted.push(...snapshot)
    snapshot = []
    counted.push(note)
  }
  if (open === "counts") counted.push(...snapshot)
  counted.sort((one, other) => one.stands - other.stands)
  // Of a message and the row that a snapshot made of it, the row knows more: where it was made.
  return counted.filter((note, n) => note.stands !== counted[n + 1]?.stands)
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
