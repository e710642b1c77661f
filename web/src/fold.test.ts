import { describe, expect, it, vi } from "vitest"
import { Fold } from "./fold"
import type { OpenSnapshot } from "./fold"
import { readNotes } from "./notes"
import type { Shown } from "./notes"

const message = (key: string, headers = {}) => {
  const value = { id: key, role: "user", content: "hi", actorId: "ada", createdAt: "now", later: 1 }
  return { type: "message", key, value, headers: { operation: "insert", ...headers } }
}

const chunk = (key: string, messageId: string) => {
  const value = { id: key, generationId: "g", messageId, index: 0, type: "text", content: "x" }
  return { type: "chunk", key, value, headers: { operation: "insert" } }
}

const start = { headers: { control: "snapshot-start", "headwater.position": "3" } }
const end = { headers: { control: "snapshot-end" } }

/** The rows that these messages make, the first of which lies at `first`. */
const fold = (first: number, items: unknown[], open: OpenSnapshot = "counts for nothing") =>
  Fold.of(readNotes(items, first, 0), open).tables

const places = (rows: ReturnType<typeof fold>, type: Shown = "message") =>
  [...rows[type].values()].map(({ id, position }) => `${id}@${position}`)

describe("the fold", () => {
  it("tells rows where they stand, and keeps fields it does not know", () => {
    const rows = fold(10, [message("a"), message("b")])
    expect(rows.message.get("b")).toMatchObject({ position: 11, later: 1 })
  })

  it("takes rows that a compaction wrote again for what they were", () => {
    const again = message("a", { "headwater.position": "3", "headwater.inserted": "1" })
    expect(places(fold(9, [start, again, end, message("b")]))).toEqual(["a@1", "b@12"])
  })

  it("takes nothing of a snapshot that has no end", () => {
    const again = message("a", { "headwater.position": "3" })
    expect(places(fold(9, [start, again]))).toEqual([])
    expect(places(fold(9, [start, again, message("b")]))).toEqual(["b@11"])
    const claim = { type: "claim", key: "c", value: {}, headers: { operation: "insert" } }
    expect(places(fold(9, [start, again, claim, end]))).toEqual([])
    expect(places(fold(9, [start, again], "counts"))).toEqual(["a@3"])
  })

  it("takes each message once, however often it was written", () => {
    const again = message("a", { "headwater.position": "3", "headwater.inserted": "2" })
    const rows = fold(3, [message("a"), message("b"), start, again, end])
    expect(places(rows)).toEqual(["a@2", "b@4"])
  })

  it("knows no position that lies behind", () => {
    const words = ["99", "x", "-1", ""]
    const items = words.map((word, n) => message(`m${n}`, { "headwater.position": word }))
    expect(places(fold(5, items))).toEqual(["m0@5", "m1@6", "m2@7", "m3@8"])
  })

  it("leaves out what the page has no use for", () => {
    const others = [
      { type: "claim", key: "c", value: {}, headers: { operation: "insert" } },
      7,
      null,
      [],
    ]
    expect(readNotes(others, 0, 0)).toEqual([])
  })

  it("leaves out rows that break their contract", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined)
    const broken = [undefined, "text", {}, { ...message("a").value, content: 7 }]
    const items = broken.map((value) => ({ ...message("a"), value }))
    expect(readNotes(items, 0, 0)).toEqual([])
    expect(warn).toHaveBeenCalledTimes(broken.length)
    warn.mockRestore()
  })

  it("leaves out chunks of a message that is there", () => {
    const rows = fold(0, [chunk("c0", "m"), chunk("c1", "other"), message("m"), chunk("c2", "m")])
    expect([...rows.chunk.keys()]).toEqual(["c1"])
  })

  it("leaves out what comes after an end, and of an attempt before", () => {
    const fold = new Fold()
    let next = 0
    const take = (message: object) => {
      next += 1
      return readNotes([message], next, 0).map((note) => fold.take(note)).includes("rows")
    }
    const shows = (status: string, attempt: number, isLate = false) => {
      const times = { createdAt: "now", updatedAt: "now" }
      const what = { id: "c", name: "look", args: {}, effect: "pure", ...times }
      const value = { ...what, status, attempt, ...(isLate && { isLate }) }
      return take({ type: "toolCall", key: "c", value, headers: { operation: "update" } })
    }
    expect(shows("pending", 0)).toBe(true)
    expect(shows("executing", 2)).toBe(true)
    expect(shows("executing", 1)).toBe(false)
    expect(shows("completed", 1)).toBe(false)
    expect(shows("cancelled", 0)).toBe(true)
    expect(shows("completed", 2)).toBe(false)
    expect(shows("cancelled", 2)).toBe(false)
    expect(shows("cancelled", 2, true)).toBe(true)
    expect(shows("cancelled", 2, true)).toBe(false)
    expect(take({ type: "toolCall", key: "c", headers: { operation: "delete" } })).toBe(true)
    expect(shows("pending", 0)).toBe(true)
  })

  it("takes everything away on a reset", () => {
    const items = [message("a"), { headers: { control: "reset" } }, message("c")]
    expect(places(fold(2, items))).toEqual(["c@4"])
  })
})
