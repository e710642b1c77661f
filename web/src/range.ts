// A part of the stream without gaps, as pages, and the rows that it makes.
//
// A range grows at either end and gives pages back at the other, so what is held does not grow with
// the session. Rows are folded again when pages come before others, which any cut of the stream
// into pages allows: a note says where it stands.
import { Fold } from "./fold"
import type { Change, OpenSnapshot } from "./fold"
import { Growth } from "./growth"
import { isAgain } from "./notes"
import type { Note, RowNote } from "./notes"
import type { Chunk } from "./rows.gen"

/** What one read gave. */
export interface Page {
  /** Where it begins: what is before it ends there. */
  start: string
  /** Where it ends: what follows begins there. */
  end: string
  notes: readonly Note[]
}

/** Notes and bytes of a range, but for a page that was just read. */
export const RANGE_NOTES_MAX = 2_000
export const RANGE_BYTES_MAX = 4 * 1024 * 1024
/** Notes that come one by one make pages of this size. */
const LIVE_PAGE_NOTES = 128
/** Notes that may come before it is looked again whether pages can go. */
export const SLACK_NOTES = 500

export class Range {
  fold = new Fold()
  readonly growth = new Growth()
  #pages: Page[]
  readonly #open: OpenSnapshot
  #seenTo = 0

  /** `pages` follow one another; `open` is what counts of a snapshot that is cut off at the end. */
  constructor(pages: readonly Page[], open: OpenSnapshot) {
    this.#pages = [...pages]
    this.#open = open
    this.#refold()
  }

  get start(): string {
    return this.#pages[0]?.start ?? ""
  }

  get end(): string {
    return this.#pages.at(-1)?.end ?? ""
  }

  get pages(): readonly Page[] {
    return this.#pages
  }

  prepend(page: Page): void {
    this.#pages.unshift(page)
    this.#refold()
  }

  append(page: Page): void {
    this.#pages.push(page)
    this.#refold()
  }

  /** Takes what has just been written, which ends at `end`. */
  extend(notes: readonly Note[], end: string): Change {
    // Whatever a compaction writes again while we look is known here, or older than all we have.
    const news = notes.filter((note) => !isAgain(note))
    const last = this.#pages.at(-1)
    const isRoomy = last && last.notes.length + news.length <= LIVE_PAGE_NOTES
    if (isRoomy) {
      this.#pages[this.#pages.length - 1] = { ...last, notes: [...last.notes, ...news], end }
    } else {
      this.#pages.push({ start: this.end, end, notes: news })
    }
    return this.#take(news)
  }

  /** Whether it holds more than it should, and has grown since that was last seen to. */
  get isFull(): boolean {
    const weight = weigh(this.#pages)
    return isOver(weight, 1) && weight.notes > this.#seenTo
  }

  /** Gives the oldest pages back, to this share of what it may hold, if what is left will do. */
  dropOldest(share: number, wouldDo: (range: Range) => boolean = () => true): void {
    this.#refold()
    const kept = this.#pages.slice(excess(this.#pages, share))
    if (kept.length < this.#pages.length && wouldDo(new Range(kept, this.#open))) {
      this.#pages = kept
      this.#refold()
    }
    this.#seenTo = weigh(this.#pages).notes + SLACK_NOTES
  }

  /** Gives the newest pages back that are too much. */
  dropNewest(): void {
    const drop = excess(this.#pages.toReversed(), 1)
    if (drop === 0) return
    this.#pages = this.#pages.slice(0, -drop)
    this.#refold()
  }

  #take(notes: readonly Note[]): Change {
    const { chunk } = this.fold.tables
    const [added, removed]: [Chunk[], Chunk[]] = [[], []]
    let change: Change = "nothing"
    for (const note of notes) {
      const old = note.kind === "row" ? chunk.get(note.key) : undefined
      const now = this.fold.take(note)
      if (now === "nothing") continue
      if (change !== "rows") change = now
      if (now === "chunks" && (note as RowNote).value) added.push((note as RowNote).value as Chunk)
      else if (now === "chunks" && old) removed.push(old)
    }
    this.growth.change(added, removed)
    for (const note of notes) {
      if (note.kind === "reset") this.growth.become(chunk.values())
      if (note.kind === "row" && note.type === "message") this.growth.forget(note.key)
    }
    return change
  }

  #refold(): void {
    this.fold = Fold.of(
      this.#pages.flatMap(({ notes }) => notes),
      this.#open,
    )
    const { message, chunk } = this.fold.tables
    const isUsed = (note: Note) => {
      const of = note.kind === "row" && note.type === "chunk" && (note.value as Chunk | undefined)
      return !(of && of.messageId && message.has(of.messageId))
    }
    const pages = this.#pages.map((page) => ({ ...page, notes: page.notes.filter(isUsed) }))
    this.#pages = joinEmpty(pages)
    this.growth.become(chunk.values())
  }
}

/** Pages of which nothing is left are no pages: so what counts is what is shown. */
function joinEmpty(pages: readonly Page[]): Page[] {
  const joined: Page[] = []
  for (const page of pages) {
    const last = joined.at(-1)
    if (last && (page.notes.length === 0 || last.notes.length === 0)) {
      const notes = last.notes.length === 0 ? page.notes : last.notes
      joined[joined.length - 1] = { start: last.start, end: page.end, notes }
    } else {
      joined.push(page)
    }
  }
  return joined
}

interface Weight {
  notes: number
  bytes: number
}

function weigh(pages: readonly Page[]): Weight {
  const weight = { notes: 0, bytes: 0 }
  for (const { notes } of pages) {
    weight.notes += notes.length
    for (const note of notes) if (note.kind === "row") weight.bytes += note.bytes
  }
  return weight
}

const isOver = ({ notes, bytes }: Weight, share: number) =>
  notes > RANGE_NOTES_MAX * share || bytes > RANGE_BYTES_MAX * share

/** How many of the first pages are too much; the last one always stays. */
function excess(pages: readonly Page[], share: number): number {
  let count = 0
  while (count < pages.length - 1 && isOver(weigh(pages.slice(count)), share)) count += 1
  return count
}
