import { describe, expect, it } from "vitest"
import { conversation, rowsOf } from "./conversation"
import type { Conversation, Entry } from "./conversation"
import type { Fold } from "./fold"
import { readNotes } from "./notes"
import { positionOf } from "./pages"
import type { Place, Read, ReadPage } from "./pages"
import { RANGE_NOTES_MAX, Range, SLACK_NOTES } from "./range"
import type { Page } from "./range"
import { Random } from "./testing/random"
import { FakeStream } from "./testing/stream"
import { Window } from "./window"

const SEEDS = 100
const only = Number(import.meta.env["VITE_SEED"] ?? NaN)
const seeds = Number.isNaN(only) ? [...Array(SEEDS).keys()] : [only]

/** Runs a check with each seed, and says which one it was that failed. */
function forSeeds(check: (random: Random) => void | Promise<void>) {
  return async () => {
    for (const seed of seeds) {
      try {
        await check(new Random(seed))
      } catch (error) {
        throw new Error(`replay with VITE_SEED=${seed}: ${String(error)}`, {
          cause: error,
        })
      }
    }
  }
}

const token = (position: number) => `${String(position).padStart(16, "0")}_${"0".repeat(16)}`

function pageOf(stream: FakeStream, from: number, to: number): Page {
  const items = stream.messages.slice(from - stream.first, to - stream.first)
  return { start: token(from), end: token(to), notes: readNotes(items, from, items.length * 100) }
}

const talkOf = (fold: Fold): Conversation =>
  conversation({ ...rowsOf(fold.tables), outbox: [], me: "ada" })

/** What the session says: all that was ever written, read in order. */
function truth(stream: FakeStream): Conversation {
  const range = new Range([], "counts for nothing")
  // Nothing lies where a compaction wrote.
  stream.written.forEach((message, at) => range.extend(readNotes([message], at, 0), token(at + 1)))
  return talkOf(range.fold)
}

/** Texts that are in no message, by their messages. */
const grown = ({ growth, fold }: Range) =>
  [...fold.tables.step.keys()].map((id) => growth.pieces(id).map(({ text }) => text))

describe("a stream that is cut into pages", () => {
  it(
    "says the same, wherever it is cut, backwards as forwards",
    forSeeds((random) => {
      const stream = new FakeStream(random)
      stream.talk(1 + random.below(25))
      if (random.once(3)) stream.begin(random.below(9))
      const expected = truth(stream)
      const all = new Range([pageOf(stream, stream.first, stream.tail)], "counts for nothing")
      expect(talkOf(all.fold)).toEqual(expected)
      let to = stream.tail
      let range: Range | undefined
      while (to > stream.first) {
        const from = Math.max(stream.first, to - 1 - random.below(40))
        const page = pageOf(stream, from, to)
        if (range) range.prepend(page)
        else range = new Range([page], "counts for nothing")
        to = from
        const seen = talkOf(range.fold).entries.map(({ id }) => id)
        const ids = expected.entries.map(({ id }) => id)
        if (!hasReset(stream)) expect(ids.filter((id) => seen.includes(id))).toEqual(seen)
      }
      expect(talkOf(range?.fold ?? all.fold)).toEqual(expected)
      expect(grown(range ?? all)).toEqual(grown(all))
    }),
  )

  it(
    "says the same to a reader who goes on from any of its pages",
    forSeeds((random) => {
      const stream = new FakeStream(random)
      stream.talk(1 + random.below(10))
      const opened = stream.tail
      const range = new Range([pageOf(stream, stream.first, opened)], "counts for nothing")
      const { first } = stream
      stream.talk(1 + random.below(10))
      // What was not trimmed away meanwhile is read as it came.
      if (stream.first > first) return
      for (let at = opened; at < stream.tail; at += 1) {
        const { notes, end } = pageOf(stream, at, at + 1)
        range.extend(notes, end)
      }
      expect(talkOf(range.fold)).toEqual(truth(stream))
    }),
  )
})

/** Of what a reset voids, some may be seen before the reset is known to be after it. */
const hasReset = (stream: FakeStream) => stream.written.some((it) => it?.headers["control"])

/** A session that can be read, and a window on it. */
function look(stream: FakeStream, pageItems: number) {
  const asked: Place[] = []
  let broken: Error | undefined
  const read: ReadPage = async (place, bytes): Promise<Read> => {
    asked.push(place)
    if (broken) throw broken
    const count = Math.max(1, Math.round((pageItems * bytes) / (128 * 1024)))
    const { first, tail } = stream
    if ("before" in place) {
      const to = place.before === "now" ? tail : positionOf(place.before)
      if (to < first) throw new Error("410")
      const from = Math.max(first, to - count)
      return { ...pageOf(stream, from, to), isLast: from === 0 || from === to }
    }
    const from = place.offset === "-1" ? first : positionOf(place.offset)
    const to = Math.min(tail, from + count)
    return { ...pageOf(stream, from, to), isLast: to === tail }
  }
  const window = new Window(read, "ada", (error) => (error as Error).message === "410")
  const ids = () => window.view.get().entries.map(({ id }) => id)
  const breakDown = (error?: Error) => (broken = error)
  return { window, ids, asked, breakDown }
}

/** A session of people who say something, so many times. */
function chatter(count: number): FakeStream {
  const stream = new FakeStream(new Random(1))
  for (let n = 0; n < count; n += 1) append(stream)
  return stream
}

function append(stream: FakeStream): void {
  const id = `m${stream.tail}`
  const value = { id, role: "user", content: id, actorId: "ada", createdAt: "now" }
  const message = { type: "message", key: id, value, headers: { operation: "insert" } }
  stream.written[stream.tail] = message
  stream.messages.push(message)
}

/** Appends so many messages, which the window hears of at once. */
function grow(stream: FakeStream, window: Window, count: number): void {
  for (let n = 0; n < count; n += 1) append(stream)
  window.extend(pageOf(stream, stream.tail - count, stream.tail).notes, token(stream.tail))
}

const isSlice = (all: readonly string[], part: readonly string[]) => {
  const from = all.indexOf(part[0] ?? "")
  return part.length === 0 || part.every((id, n) => id === all[from + n])
}

describe("a window on a session", () => {
  it("opens at the end with one page, and holds no more than its bound", async () => {
    const stream = chatter(20_000)
    const { window, ids, asked } = look(stream, 400)
    await window.open()
    expect(ids()).toEqual(truthIds(stream).slice(-400))
    expect(asked).toHaveLength(1)
    for (let n = 0; n < 60; n += 1) {
      await window.earlier()
      expect(ids().length).toBeLessThanOrEqual(RANGE_NOTES_MAX + 400)
    }
    expect(ids()[0]).toBe("m0")
    expect(window.view.get().earlier.state).toBe("none")
    expect(window.view.get().later.state).toBe("more")
  })

  it("comes back to the end, page by page", async () => {
    const stream = chatter(6_000)
    const { window, ids } = look(stream, 400)
    await window.open()
    await window.beginning()
    expect(ids()[0]).toBe("m0")
    const all = truthIds(stream)
    for (let n = 0; window.view.get().later.state === "more"; n += 1) {
      expect(n).toBeLessThan(30)
      const before = ids()
      await window.later()
      expect(isSlice(all, ids())).toBe(true)
      expect(ids()).toContain(before.at(-1))
    }
    expect(ids().at(-1)).toBe(all.at(-1))
    grow(stream, window, 1)
    expect(ids().at(-1)).toBe(`m${stream.tail - 1}`)
  })

  it("goes on at the end while the past is shown, and does not touch that", async () => {
    const stream = chatter(6_000)
    const { window, ids } = look(stream, 400)
    await window.open()
    window.isAtEnd(false)
    for (let n = 0; n < 3; n += 1) await window.earlier()
    const before = ids()
    for (let n = 0; n < 3 * RANGE_NOTES_MAX; n += 50) grow(stream, window, 50)
    expect(ids().slice(0, before.length)).toEqual(before)
    window.latest()
    expect(ids().at(-1)).toBe(`m${stream.tail - 1}`)
    expect(ids().length).toBeLessThanOrEqual(RANGE_NOTES_MAX)
  })

  it("holds no more than its bound however long it is open", async () => {
    const stream = chatter(10)
    const { window, ids } = look(stream, 400)
    await window.open()
    for (let n = 0; n < 3 * RANGE_NOTES_MAX; n += 50) {
      grow(stream, window, 50)
      expect(ids().length).toBeLessThanOrEqual(RANGE_NOTES_MAX + SLACK_NOTES + 50)
    }
    expect(ids().at(-1)).toBe(`m${stream.tail - 1}`)
    await window.earlier()
    expect(isSlice(truthIds(stream), ids())).toBe(true)
  })

  it("reads as far back as what is under way began", async () => {
    const stream = chatter(50)
    stream.begin(900)
    const { window } = look(stream, 100)
    await window.open()
    const { running, entries, growth } = window.view.get()
    expect(running?.generationId).toBe("guide-50")
    const growing = entries.at(-1) as Entry & { turns: { id: string }[] }
    const [piece] = growth.pieces(growing.turns[0]?.id ?? "")
    expect(piece?.text.startsWith("guide-50:c0guide-50:c1guide")).toBe(true)
  })

  it("says why a page cannot be had, and has it the next time", async () => {
    const { window, ids, breakDown } = look(chatter(1_000), 400)
    await window.open()
    breakDown(new Error("The server cannot be reached."))
    await window.earlier()
    const failed = { state: "failed", why: "The server cannot be reached." }
    expect(window.view.get().earlier).toEqual(failed)
    expect(ids()).toHaveLength(400)
    breakDown()
    await window.earlier()
    expect(ids()).toHaveLength(800)
  })

  it("takes a page that comes after a jump for nothing", async () => {
    const { window, ids } = look(chatter(3_000), 400)
    await window.open()
    const late = window.earlier()
    await window.beginning()
    await late
    expect(ids()[0]).toBe("m0")
    const later = window.later()
    window.latest()
    await later
    expect(ids().at(-1)).toBe("m2999")
    expect(window.view.get().earlier.state).toBe("more")
  })

  it(
    "shows parts of the session in its order, whatever the reader does",
    forSeeds(async (random) => {
      const stream = new FakeStream(random)
      stream.talk(20)
      const { window, ids } = look(stream, 5 + random.below(20))
      const all = truth(stream)
      const order = all.entries.map(({ id }) => id)
      await window.open()
      for (let n = 0; n < 30; n += 1) {
        const [deed] = [["earlier", "later", "beginning", "latest", "earlier"] as const]
        await window[deed[random.below(deed.length)] ?? "earlier"]()
        if (!hasReset(stream)) expect(order.filter((id) => ids().includes(id))).toEqual(ids())
      }
      window.latest()
      for (let n = 0; n < 500 && window.view.get().earlier.state === "more"; n += 1) {
        await window.earlier()
      }
      expect(window.view.get().entries).toEqual(all.entries)
    }),
  )
})

const truthIds = (stream: FakeStream) => truth(stream).entries.map(({ id }) => id)
