import { describe, expect, it, vi } from "vitest"
import { Admission } from "./admission"
import type { Batch } from "./follow"

const message = (key: string, headers = {}) => {
  const value = { id: key, role: "user", content: "hi", actorId: "ada", createdAt: "now", later: 1 }
  return { type: "message", key, value, headers: { operation: "insert", ...headers } }
}

const chunk = (key: string, messageId: string) => {
  const value = { id: key, generationId: "g", messageId, index: 0, type: "text", content: "x" }
  return { type: "chunk", key, value, headers: { operation: "insert" } }
}

const batch = (next: number, items: unknown[]): Batch => {
  const offset = `${String(next).padStart(16, "0")}_${"0".repeat(16)}`
  return { items, offset, upToDate: true, streamClosed: false } as Batch
}

const admit = (next: number, items: unknown[], admission = new Admission()) =>
  admission.admit(batch(next, items)).items as { key: string; value?: { position?: number } }[]

describe("admission", () => {
  it("tells rows where they stand, and keeps fields it does not know", () => {
    const [, second] = admit(12, [message("a"), message("b")])
    expect(second?.value).toMatchObject({ position: 11, later: 1 })
  })

  it("takes rows that a compaction wrote again for what they were", () => {
    const start = { headers: { control: "snapshot-start", "headwater.position": "3" } }
    const again = message("a", { "headwater.position": "3", "headwater.inserted": "1" })
    const positions = admit(12, [start, again, message("b")]).map(({ value }) => value?.position)
    expect(positions).toEqual([1, 11])
  })

  it("passes over what it knows", () => {
    const admission = new Admission()
    admit(4, [message("a")], admission)
    const again = message("a", { "headwater.position": "3" })
    expect(admit(6, [again, message("b")], admission).map(({ key }) => key)).toEqual(["b"])
  })

  it("leaves out what the page has no use for", () => {
    const others = [
      { type: "claim", key: "c", value: {}, headers: { operation: "insert" } },
      7,
      null,
      [],
    ]
    expect(admit(4, others)).toEqual([])
  })

  it("leaves out rows that break their contract", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined)
    const broken = [undefined, "text", {}, { ...message("a").value, content: 7 }]
    const items = broken.map((value) => ({ ...message("a"), value }))
    expect(admit(9, items)).toEqual([])
    expect(warn).toHaveBeenCalledTimes(broken.length)
    warn.mockRestore()
  })

  it("leaves out chunks of a message that is there", () => {
    const keys = admit(9, [chunk("c0", "m"), chunk("c1", "other"), message("m")]).map(
      ({ key }) => key,
    )
    expect(keys).toEqual(["c1", "m"])
  })

  it("leaves out what comes after an end, and of an attempt before", () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined)
    const admission = new Admission()
    let next = 0
    const shows = (status: string, attempt: number, isLate = false) => {
      next += 1
      const times = { createdAt: "now", updatedAt: "now" }
      const what = { id: "c", name: "look", args: {}, effect: "pure", ...times }
      const value = { ...what, status, attempt, ...(isLate && { isLate }) }
      const call = { type: "toolCall", key: "c", value, headers: { operation: "update" } }
      return admit(next, [call], admission).length === 1
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
    next += 1
    const gone = { type: "toolCall", key: "c", headers: { operation: "delete" } }
    expect(admit(next, [gone], admission)).toHaveLength(1)
    expect(shows("pending", 0)).toBe(true)
    warn.mockRestore()
  })

  it("takes everything away on a reset", () => {
    const admission = new Admission()
    admit(2, [message("a"), message("b")], admission)
    const items = admit(4, [{ headers: { control: "reset" } }, message("c")], admission)
    expect(items.map(({ key, value }) => [key, value !== undefined])).toEqual([
      ["a", false],
      ["b", false],
      ["c", true],
    ])
  })
})
