import { describe, expect, it } from "vitest"
import { Growth } from "./growth"
import type { Chunk } from "./rows.gen"

type Change = { type: "insert" | "delete"; value: Chunk }

/** A growth, and a way to feed it. */
function grow() {
  const growth = new Growth()
  const of = (changes: Change[], type: Change["type"]) =>
    changes.filter((change) => change.type === type).map(({ value }) => value)
  const feed = (...changes: Change[]) =>
    growth.change(of(changes, "insert"), of(changes, "delete"))
  return { growth, feed }
}

const chunk = (index: number, content: string, type: Chunk["type"] = "text"): Chunk => {
  return { id: `g:c${index}`, generationId: "g", messageId: "m", index, type, content }
}
const insert = (...it: Parameters<typeof chunk>): Change => ({
  type: "insert",
  value: chunk(...it),
})
const remove = (index: number): Change => ({ type: "delete", value: chunk(index, "") })

describe("growth", () => {
  const outline = (growth: Growth) =>
    growth.pieces("m").map(({ kind, name, text }) => `${kind} ${name}${text}`)

  it("hands on what is new, and no more", () => {
    const { growth, feed } = grow()
    feed(insert(0, "Once"))
    const heard: string[] = []
    const before = growth.pieces("m")
    before[0]?.follow((more) => heard.push(more))
    feed(insert(1, " upon"), insert(2, " a time"))
    expect(heard).toEqual([" upon", " a time"])
    expect(growth.pieces("m")).toBe(before)
    expect(outline(growth)).toEqual(["text Once upon a time"])
  })

  it("begins a piece for each kind, and says so", () => {
    const { growth, feed } = grow()
    let begun = 0
    growth.watch("m", () => (begun += 1))
    feed(insert(0, "Hm", "thinking"), insert(1, "m.", "thinking"), insert(2, "So:"))
    feed(
      insert(3, "weather", "tool-call-start"),
      insert(4, "{}", "tool-call-args"),
      insert(5, "", "tool-call-end"),
    )
    expect(outline(growth)).toEqual(["thinking Hmm.", "text So:", "call weather{}"])
    expect(begun).toBe(3)
  })

  it("shows a chunk once, and in its place", () => {
    const { growth, feed } = grow()
    feed(insert(0, "a"), insert(2, "c"), insert(2, "c"), insert(1, "b"))
    expect(outline(growth)).toEqual(["text abc"])
  })

  it("begins anew when an attempt is withdrawn", () => {
    const { growth, feed } = grow()
    feed(insert(0, "Once upon"), insert(1, " a ti"))
    feed(remove(0), remove(1))
    expect(outline(growth)).toEqual([])
    feed(insert(2, "Once upon a time"))
    expect(outline(growth)).toEqual(["text Once upon a time"])
  })

  it("builds nothing again that stays the same", () => {
    const { growth, feed } = grow()
    feed(insert(1, " upon"))
    const before = growth.pieces("m")
    growth.become([chunk(1, " upon")])
    expect(growth.pieces("m")).toBe(before)
    growth.become([chunk(1, " upon"), chunk(0, "Once")])
    expect(outline(growth)).toEqual(["text Once upon"])
    growth.become([])
    expect(outline(growth)).toEqual([])
  })

  it("forgets a message that is whole, or that is neither there nor watched", () => {
    const { growth, feed } = grow()
    feed(insert(0, "Once"))
    growth.forget("m")
    expect(outline(growth)).toEqual([])
    expect(growth.size).toBe(0)
    const stop = growth.watch("other", () => undefined)
    growth.become([])
    expect(growth.size).toBe(1)
    stop()
    expect(growth.size).toBe(0)
  })
})
