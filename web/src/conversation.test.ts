import { describe, expect, it } from "vitest"
import { conversation } from "./conversation"
import type { Answer, SessionRows } from "./conversation"
import type { Placed } from "./notes"
import type { Generation, Message, Step, ToolCall } from "./rows.gen"

const AT = "2026-01-01T00:00:00.000Z"

const said = (position: number, content: string): Placed<Message> => {
  const by = { role: "user" as const, actorId: "ada", targetAgent: "guide" }
  return { id: `m${position}`, content, parts: null, createdAt: AT, position, ...by }
}

const spoken = (generationId: string, turn: number, content: string, parts: unknown = null) => {
  const by = { role: "assistant" as const, actorId: "guide", generationId }
  const id = `${generationId}:${turn}`
  return { id, content, parts, createdAt: AT, position: 100 + turn, ...by }
}

const generation = (readUpTo: number, more: Partial<Generation> = {}): Placed<Generation> => {
  const times = { createdAt: AT, updatedAt: AT }
  const own = { id: `guide-${readUpTo}`, agentName: "guide", model: "scripted", readUpTo }
  return { ...own, ...times, status: "completed", position: 0, ...more }
}

const step = (generationId: string, turn: number, status: Step["status"]): Step => {
  const rest = { attempt: 1, firstChunk: 0, startedAt: AT, stop: null, usage: null }
  return { id: `${generationId}:${turn}`, generationId, turn, status, ...rest }
}

const call = (id: string, more: Partial<ToolCall>): ToolCall => {
  const times = { createdAt: AT, updatedAt: AT }
  const rest = {
    args: { city: "Oslo" },
    effect: "pure" as const,
    result: undefined,
    resultParts: undefined,
  }
  return { id, name: "weather", status: "completed", attempt: 1, ...times, ...rest, ...more }
}

const show = (rows: Partial<SessionRows>) => {
  const none = { generations: [], messages: [], steps: [], toolCalls: [] }
  return conversation({ ...none, stops: [], resolutions: [], outbox: [], me: "ada", ...rows })
}

/** Each entry in a few words. */
const outline = (rows: Partial<SessionRows>) =>
  show(rows).entries.map((entry) => {
    if (entry.kind === "said") return `${entry.state}: ${entry.text}`
    const turns = entry.turns.map(({ parts, isGrowing }) => {
      if (!parts) return isGrowing ? "growing" : "left"
      return parts.map((part) => (part.kind === "call" ? part.id : part.text)).join(" + ")
    })
    return `${entry.by} ${entry.state}: ${turns.join(" / ")}`
  })

describe("the order of a conversation", () => {
  it("is what a generation has read, and then what it said", () => {
    const messages = [
      said(3, "and Lima?"),
      said(0, "Oslo?"),
      spoken("guide-0", 1, "Rain."),
      spoken("guide-3", 1, "Sun."),
    ]
    const generations = [generation(3), generation(0)]
    const expected = [
      "read: Oslo?",
      "guide completed: Rain.",
      "read: and Lima?",
      "guide completed: Sun.",
    ]
    expect(outline({ messages, generations })).toEqual(expected)
  })

  it("puts what arrives during an answer after it, wherever it lies", () => {
    const messages = [
      said(0, "one"),
      said(2, "two"),
      { ...spoken("guide-0", 1, "first"), position: 5 },
    ]
    const generations = [generation(0, { status: "generating" })]
    const steps = [step("guide-0", 2, "started")]
    const expected = ["read: one", "guide generating: first / growing", "waiting: two"]
    expect(outline({ messages, generations, steps })).toEqual(expected)
  })

  it("reads several messages at once", () => {
    const messages = [said(0, "one"), said(1, "two")]
    const generations = [generation(1, { status: "generating" })]
    expect(outline({ messages, generations })).toEqual([
      "read: one",
      "read: two",
      "guide generating: ",
    ])
  })

  it("ends with what is on its way, once", () => {
    const outbox = [
      { id: "m0", text: "one" },
      { id: "x", text: "two" },
      { id: "y", text: "three", error: "no" },
    ]
    expect(outline({ messages: [said(0, "one")], outbox })).toEqual([
      "waiting: one",
      "sending: two",
      "refused: three",
    ])
  })

  it("leaves out an answer of which only the end is among the rows", () => {
    const steps = [step("guide-0", 1, "completed")]
    const rows = { messages: [said(9, "next")], generations: [generation(0)], steps }
    expect(outline(rows)).toEqual(["waiting: next"])
  })

  it("leaves nothing open that ends after the rows", () => {
    const rows = {
      messages: [said(0, "one"), said(2, "two")],
      generations: [generation(0, { status: "generating" as const })],
      steps: [step("guide-0", 1, "started")],
      isPast: true,
    }
    expect(outline(rows)).toEqual(["read: one", "guide completed: left", "read: two"])
    expect(show(rows)).toMatchObject({ isBusy: false, running: undefined })
  })

  it("names others", () => {
    const messages = [said(0, "one"), { ...said(1, "two"), actorId: "bob" }]
    const named = show({ messages }).entries.map((entry) => entry.kind === "said" && entry.by)
    expect(named).toEqual([undefined, "bob"])
  })

  it("shows a message of a generation that nobody knows", () => {
    expect(outline({ messages: [spoken("gone-0", 1, "Hello.")] })).toEqual([
      "guide completed: Hello.",
    ])
  })
})

describe("an answer", () => {
  const rows = (more: Partial<Generation>) => ({
    messages: [said(0, "hi")],
    generations: [generation(0, more)],
  })
  const answerOf = (rows: Partial<SessionRows>) => show(rows).entries.at(-1) as Answer

  it("has the parts of its messages, and the calls they name", () => {
    const parts = [
      { type: "thinking", text: "Hm." },
      { type: "text" },
      { type: "tool-call", id: "c" },
      { type: "from-the-future" },
      null,
    ]
    const messages = [said(0, "hi"), spoken("guide-0", 1, "Let me look.", parts)]
    const toolCalls = [call("c", {})]
    const { turns } = answerOf({ messages, generations: [generation(0)], toolCalls })
    expect(turns[0]?.parts?.map(({ kind }) => kind)).toEqual(["thinking", "text", "call"])
    expect(turns[0]?.parts?.[1]).toEqual({ kind: "text", text: "Let me look." })
  })

  it.each([
    [
      { status: "failed", error: "503" },
      { tone: "failed", text: "503" },
    ],
    [
      { status: "cancelled", cancelledBy: "user" },
      { tone: "stopped", text: "Stopped." },
    ],
    [
      { status: "cancelled", cancelledBy: "timeout" },
      { tone: "stopped", text: "Stopped: it took too long." },
    ],
    [{ status: "completed" }, undefined],
  ] as const)("says how it ended: %o", (more, ending) => {
    expect(answerOf(rows(more)).ending).toEqual(ending)
  })

  it("keeps what was said before it was stopped", () => {
    const steps = [step("guide-0", 1, "cancelled")]
    expect(outline({ ...rows({ status: "cancelled" }), steps }).at(-1)).toBe(
      "guide cancelled: left",
    )
  })

  it("is thinking only while nothing shows that it works", () => {
    const busy = rows({ status: "generating" })
    expect(answerOf(busy).isThinking).toBe(true)
    expect(answerOf({ ...busy, steps: [step("guide-0", 1, "started")] }).isThinking).toBe(false)
    const messages = [said(0, "hi"), spoken("guide-0", 1, "", [{ type: "tool-call", id: "c" }])]
    const calling = (status: ToolCall["status"]) =>
      answerOf({ ...busy, messages, toolCalls: [call("c", { status })] }).isThinking
    expect([calling("executing"), calling("parked"), calling("completed")]).toEqual([
      false,
      false,
      true,
    ])
  })
})

describe("a call", () => {
  const described = (more: Partial<ToolCall>, rows: Partial<SessionRows> = {}) => {
    const messages = [spoken("g", 1, "", [{ type: "tool-call", id: "c" }])]
    const entry = show({ messages, toolCalls: [call("c", more)], ...rows }).entries[0] as Answer
    const part = entry.turns[0]?.parts?.[0]
    return part?.kind === "call" ? part.call : undefined
  }

  it.each([
    [{ status: "pending" }, "waiting"],
    [{ status: "executing" }, "running"],
    [{ status: "executing", attempt: 2 }, "running, attempt 2"],
    [{ status: "completed" }, "done"],
    [{ status: "completed", isLate: true }, "done, too late"],
    [{ status: "cancelled", cancelledBy: "user", isLate: true }, "stopped, answered too late"],
    [{ status: "failed" }, "failed"],
    [{ status: "cancelled", cancelledBy: "user" }, "stopped"],
    [{ status: "cancelled", cancelledBy: "timeout" }, "timed out"],
    [{ status: "parked" }, "needs a decision"],
    [{ status: "dreaming" as ToolCall["status"] }, "dreaming"],
  ] as const)("says how far it is: %o", (more, status) => {
    expect(described(more)?.status).toBe(status)
  })

  it("knows how long it took", () => {
    const times = { startedAt: "2026-01-01T00:00:01.000Z", completedAt: "2026-01-01T00:00:01.250Z" }
    expect(described(times)?.durationMs).toBe(250)
    expect(described({})).not.toHaveProperty("durationMs")
  })

  it("asks for a decision until there is one for this attempt", () => {
    const decided = (attempt: number) => {
      const made = { actorId: "ada", createdAt: AT, decision: "retry" as const, result: null }
      const resolutions = [{ id: "r", toolCallId: "c", attempt, ...made }]
      return described({ status: "parked", attempt: 2 }, { resolutions })?.needsDecision
    }
    expect([decided(1), decided(2)]).toEqual([true, false])
  })
})

describe("what can be stopped", () => {
  const stop = (position: number, generationId?: string) => {
    return {
      id: `s${position}`,
      actorId: "ada",
      createdAt: AT,
      position,
      ...(generationId && { generationId }),
    }
  }
  const messages = [said(0, "hi")]
  const generations = [generation(0, { status: "generating" })]

  it("is the generation that runs", () => {
    expect(show({ messages, generations }).running).toEqual({
      generationId: "guide-0",
      isStopping: false,
    })
    const stops = [stop(4, "guide-0")]
    expect(show({ messages, generations, stops }).running?.isStopping).toBe(true)
    expect(show({ messages, generations, stops: [stop(4, "other")] }).running?.isStopping).toBe(
      false,
    )
  })

  it("is a question that nobody has read yet", () => {
    expect(show({ messages }).running).toEqual({ isStopping: false })
    expect(show({ messages, stops: [stop(1)] }).running).toEqual({ isStopping: true })
  })

  it("is nothing once all is answered, or among people", () => {
    expect(show({ messages, generations: [generation(0)] }).running).toBeUndefined()
    expect(show({ messages: [{ ...said(0, "hi"), targetAgent: null }] }).running).toBeUndefined()
  })
})
