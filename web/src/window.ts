// What is read of a session: its end, which is always there and grows, and a part of its past while
// the reader looks at that. Both are bounded, however long the session is.
import type { Outgoing } from "./actions"
import { sayWhy } from "./actions"
import { conversation, keepSame, rowsOf } from "./conversation"
import type { Conversation, Entry } from "./conversation"
import type { Growth } from "./growth"
import type { Note } from "./notes"
import { NEWEST, OLDEST, positionOf } from "./pages"
import type { Read, ReadPage } from "./pages"
import { Range } from "./range"
import { Store } from "./store"

/** Bytes of a page. */
const PAGE_BYTES = 128 * 1024
/** What is under way may have begun long ago: so often, so much more is read to find where. */
const BEGIN_READS_MAX = 16
const BEGIN_BYTES = 512 * 1024
/** What the end may hold while the past is shown, so that there is room when they meet again. */
const TAIL_SHARE = 0.25

/** What is beyond an end of what is shown. */
export type Edge =
  | { state: "more" | "loading" | "none" }
  /** It could not be read. */
  | { state: "failed"; why: string }

/** What is shown. */
export interface View {
  entries: Entry[]
  growth: Growth
  /** Whether the session was read at all. */
  isOpen: boolean
  earlier: Edge
  later: Edge
  /** These are about the end of the session, whatever is shown. */
  isBusy: Conversation["isBusy"]
  running: Conversation["running"]
  /** Where the reader asked to go, and how often that was. */
  jump: { to: "start" | "end"; count: number }
}

const NONE: Edge = { state: "none" }
const MORE: Edge = { state: "more" }
const LOADING: Edge = { state: "loading" }

export class Window {
  readonly view: Store<View>
  readonly #read: ReadPage
  readonly #me: string
  #outbox: readonly Outgoing[] = []
  #tail = new Range([], "counts for nothing")
  #tailEarlier: Edge = MORE
  #past: Range | undefined
  #pastEarlier: Edge = NONE
  #later: Edge = NONE
  #isOpen = false
  /** Whether the reader is at the end, and sees nothing of what is given back. */
  #isAtEnd = true
  #jump: View["jump"] = { to: "end", count: 0 }
  /** Calls that a page was asked for; what was asked before a jump is of no use after it. */
  #era = 0
  /** A page that was there is not there any more. */
  readonly #onTrimmed: (error: unknown) => boolean

  /** `onTrimmed` is asked whether an error means that a place is gone, and sees to it. */
  constructor(read: ReadPage, me: string, onTrimmed: (error: unknown) => boolean) {
    this.#read = read
    this.#me = me
    this.#onTrimmed = onTrimmed
    this.view = new Store(this.#look([]))
  }

  /** The messages at the end, by their ids. */
  get messages(): ReadonlyMap<string, unknown> {
    return this.#tail.fold.tables.message
  }

  /** Reads the end of the session, and says where it ends. */
  async open(): Promise<string> {
    const page = await this.#read(NEWEST, PAGE_BYTES)
    const tail = new Range([page], "counts for nothing")
    let isLast = page.isLast
    for (let reads = 0; !isLast && !isSelfContained(tail) && reads < BEGIN_READS_MAX; reads += 1) {
      const before = await this.#read({ before: tail.start }, BEGIN_BYTES)
      tail.prepend(before)
      isLast = before.isLast
    }
    this.#turn()
    this.#tail = tail
    this.#tailEarlier = isLast ? NONE : MORE
    this.#past = undefined
    this.#later = NONE
    this.#isOpen = true
    this.#publish()
    return page.end
  }

  /** Takes what has just been written. */
  extend(notes: readonly Note[], end: string): void {
    const change = this.#tail.extend(notes, end)
    if (this.#tail.isFull) this.#giveBack()
    else if (change !== "rows") return
    this.#publish()
  }

  send(outbox: readonly Outgoing[]): void {
    this.#outbox = outbox
    this.#publish()
  }

  /** The reader is at the end of what is shown, or is not. */
  isAtEnd(isAtEnd: boolean): void {
    this.#isAtEnd = isAtEnd
  }

  /** Shows the page before what is shown. */
  async earlier(): Promise<void> {
    const range = this.#past ?? this.#tail
    const edge = this.#past ? this.#pastEarlier : this.#tailEarlier
    if (!this.#isOpen || edge.state === "none" || edge.state === "loading") return
    const { start } = range
    this.#setEarlier(LOADING)
    const failed = (why: string) => this.#setEarlier({ state: "failed", why })
    const page = await this.#ask({ before: start }, failed)
    if (!page) return
    // The end may have moved on, so that this page has no place in it any more.
    if ((this.#past ?? this.#tail).start !== start) return this.#setEarlier(MORE)
    this.#setEarlier(page.isLast ? NONE : MORE)
    if (!this.#past && range.isFull) this.#part()
    const shown = this.#past ?? this.#tail
    shown.prepend(page)
    if (this.#past) {
      this.#past.dropNewest()
      this.#later = MORE
    }
    this.#publish()
  }

  /** Shows the page after what is shown, of the past. */
  async later(): Promise<void> {
    const past = this.#past
    if (!past || this.#later.state === "loading") return
    if (this.#reaches(past)) return this.#rejoin(past)
    this.#setLater(LOADING)
    const failed = (why: string) => this.#setLater({ state: "failed", why })
    const page = await this.#ask({ offset: past.end }, failed)
    if (!page) return
    past.append(page)
    this.#later = MORE
    if (this.#reaches(past)) return this.#rejoin(past)
    const start = past.start
    past.dropOldest(1)
    if (past.start !== start) this.#pastEarlier = MORE
    this.#publish()
  }

  /** Shows where the session begins. */
  async beginning(): Promise<void> {
    if (!this.#isOpen) return
    const isAll = this.#past ? this.#pastEarlier === NONE : this.#tailEarlier === NONE
    if (isAll) return this.#go("start")
    this.#turn()
    this.#setEarlier(LOADING)
    const failed = (why: string) => this.#setEarlier({ state: "failed", why })
    const page = await this.#ask(OLDEST, failed)
    if (!page) return
    if (!this.#past) this.#tailEarlier = MORE
    this.#past = new Range([page], "counts")
    this.#pastEarlier = NONE
    this.#later = MORE
    this.#go("start")
  }

  /** Shows the end, as it is now. */
  latest(): void {
    if (this.#past) {
      this.#turn()
      this.#past = undefined
      this.#later = NONE
    }
    this.#go("end")
  }

  /** Reads a page, unless the reader has gone elsewhere meanwhile. */
  async #ask(
    place: Parameters<ReadPage>[0],
    failed: (why: string) => void,
  ): Promise<Read | undefined> {
    const era = this.#era
    try {
      const page = await this.#read(place, PAGE_BYTES)
      return era === this.#era ? page : undefined
    } catch (error) {
      if (era === this.#era && !this.#onTrimmed(error)) failed(sayWhy(error))
      return undefined
    }
  }

  #go(to: View["jump"]["to"]): void {
    this.#isAtEnd = to === "end"
    this.#jump = { to, count: this.#jump.count + 1 }
    this.#publish()
  }

  /** The end holds too much: what is not shown goes, and what is being read becomes the past. */
  #giveBack(): void {
    if (!this.#past && !this.#isAtEnd) return this.#part()
    this.#shorten(this.#past ? TAIL_SHARE : 1)
  }

  #shorten(share: number): void {
    const { start } = this.#tail
    this.#tail.dropOldest(share, isSelfContained)
    if (this.#tail.start !== start) this.#tailEarlier = MORE
  }

  /** What was asked for until now is of no use any more. */
  #turn(): void {
    this.#era += 1
    if (this.#tailEarlier === LOADING) this.#tailEarlier = MORE
    if (this.#pastEarlier === LOADING) this.#pastEarlier = MORE
    if (this.#later === LOADING) this.#later = MORE
  }

  /** From here on, what is shown is the past, and the end goes on without it. */
  #part(): void {
    this.#past = new Range(this.#tail.pages, "counts")
    this.#pastEarlier = this.#tailEarlier
    this.#later = MORE
    this.#tailEarlier = MORE
    this.#shorten(TAIL_SHARE)
  }

  /** Whether nothing is between the past and the end. */
  #reaches(past: Range): boolean {
    return positionOf(past.end) >= positionOf(this.#tail.start)
  }

  /** The past has come to the end: they are one again. */
  #rejoin(past: Range): void {
    const from = positionOf(this.#tail.start)
    const before = past.pages
      .filter(({ start }) => start === OLDEST_START || positionOf(start) < from)
      .map((page) => ({ ...page, notes: page.notes.filter(({ lies }) => lies < from) }))
    this.#turn()
    this.#tail = new Range([...before, ...this.#tail.pages], "counts for nothing")
    this.#tailEarlier = this.#pastEarlier
    this.#past = undefined
    this.#later = NONE
    this.#shorten(1)
    this.#publish()
  }

  #setEarlier(edge: Edge): void {
    if (this.#past) this.#pastEarlier = edge
    else this.#tailEarlier = edge
    this.#publish()
  }

  #setLater(edge: Edge): void {
    this.#later = edge
    this.#publish()
  }

  #publish(): void {
    this.view.set(this.#look(this.view.get().entries))
  }

  #look(before: readonly Entry[]): View {
    const [me, outbox] = [this.#me, this.#outbox]
    const now = conversation({ ...rowsOf(this.#tail.fold.tables), outbox, me })
    const past = this.#past
    const shown = past
      ? conversation({ ...rowsOf(past.fold.tables), outbox: [], me, isPast: true })
      : now
    return {
      entries: keepSame(before, shown.entries),
      growth: (past ?? this.#tail).growth,
      isOpen: this.#isOpen,
      earlier: past ? this.#pastEarlier : this.#tailEarlier,
      later: past ? this.#later : NONE,
      isBusy: now.isBusy,
      running: now.running,
      jump: this.#jump,
    }
  }
}

/** How a page that was read from the very beginning says where it begins. */
const OLDEST_START = "-1"

/** Whether the beginning of whatever is under way is among these rows. */
function isSelfContained({ fold: { tables } }: Range): boolean {
  const { generation, step, chunk, toolCall } = tables
  const isKnown = (id: string | null | undefined) => id == null || generation.has(id)
  return (
    [...chunk.values()].every(({ messageId }) => messageId == null || step.has(messageId)) &&
    [...step.values()].every((row) => row.status !== "started" || isKnown(row.generationId)) &&
    [...toolCall.values()].every((row) => isEnded(row.status) || isKnown(row.generationId))
  )
}

const isEnded = (status: string) => ["completed", "failed", "cancelled"].includes(status)
