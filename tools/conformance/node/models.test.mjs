// The vendors' SDKs and our providers read the same server of model wires, and both must come to
// the same answers: so the server is one that the vendors' own code accepts, and our decoders read
// it as that code does. The AG-UI events that we make of it must pass AG-UI's own validators, and
// TanStack AI must fold them into the same answers.
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { EventSchemas } from "@ag-ui/core/schemas"
import { StreamProcessor, normalizeStreamChunk, restoreInboundChunk } from "@tanstack/ai/client"
import { afterAll, describe, expect, test } from "vitest"
import { ask } from "./models.sdks.mjs"

// What a scenario must end with. Those that are not here end with an answer.
const failures = {
  disconnect: "truncated",
  "early-end": "truncated",
  malformed: "malformed",
  "fails-midway": "unavailable",
  "bad-key": "unauthorized",
  overloaded: "unavailable",
  "unknown-model": "unknown-model",
}

// Where an SDK is wrong: what it should have said, and why.
const deviations = {
  "openai-chat: missing-finish": {
    expected: { error: null },
    reason: "its helper wants a reason and takes no notice of [DONE], which says that all is there",
  },
  "openai-chat: lying-finish": {
    expected: { stop: "tool_calls" },
    reason: "it repeats what the server says, which the calls belie",
  },
  "ollama: malformed": {
    expected: { error: "malformed", text: "Hello from the model." },
    reason: "it passes over a line that is no JSON and shows what is left as the whole answer",
  },
}

// What the server says once calls have their answers.
const goodbye = "Hello from the model.\n\n  Bye."

// What the machine says to a model whose answer does not fit.
const complaint = /Your answer does not fit the schema: .* and nothing else\./s

// How much memory reading far too much may take.
const peakBytesMax = 48 << 20

const server = spawn(process.env.CONFORMANCE_MODELS_SERVER, { stdio: ["pipe", "pipe", "inherit"] })
afterAll(() => server.kill())
const [url] = await once(createInterface({ input: server.stdout }), "line")

async function ours(...words) {
  const options = { maxBuffer: 64 << 20 }
  const { stdout } = await promisify(execFile)(process.env.CONFORMANCE_MODELS_DRIVER, words, options)
  const runs = []
  let events = []
  for (const line of stdout.trim().split("\n").map((line) => JSON.parse(line))) {
    if (!line.provider) events.push(line)
    else {
      runs.push({ name: `${line.provider}: ${line.scenario}`, line, events })
      events = []
    }
  }
  return runs
}

const runs = await ours(url, "--events")
// Runs that no wire leads to: decisions, interrupts, stops, repairs, progress, subagents.
const plays = await ours("--plays")

describe("an SDK and we read the same:", () => {
  test.each(runs)("$name", async ({ name, line }) => {
    const { provider, scenario } = line.sdk ?? line
    const sdk = await ask(url, provider, scenario)
    const deviation = deviations[name]
    const expected = { ...sdk, ...deviation?.expected }
    const both = `the SDK: ${JSON.stringify(sdk)}\nours: ${JSON.stringify(line)}`
    expect(expected.error, both).toBe(failures[scenario] ?? null)
    // A deviation that is none any more has to go.
    const differs = ([field, value]) => sdk[field] !== value
    if (deviation) expect(Object.entries(deviation.expected).some(differs), both).toBe(true)
    expect(line.error, both).toBe(expected.error)
    // What was shown before an answer broke off is shown by both.
    const partly = ["text", "thinking", "calls"]
    if (expected.error) return partly.forEach((field) => expect(line[field], both).toEqual(expected[field]))
    for (const field of ["text", "thinking", "signature", "calls", "ran", "usage"])
      expect(line[field], both).toEqual(expected[field])
    if (expected.stop) expect(line.stop, both).toBe(expected.stop)
    // Our answers to calls were such that the server went on.
    if (!line.output) expect(line.after, both).toBe(line.calls.length ? goodbye : null)
    else expect(line.output, both).toEqual(JSON.parse(sdk.text))
  })
})

describe("AG-UI and TanStack understand the events of", () => {
  test.each(runs)("$name", ({ line, events }) => {
    expect(line.broken).toBe(null)
    validate(events)
    expect(ends(events)).toEqual([line.error ? "error" : "success"])
    const folded = fold(events)
    expect(folded.text).toBe(line.text + (line.after ?? ""))
    if (line.error) return
    expect(folded.thinking).toBe(line.thinking)
    expect(folded.calls).toEqual(line.calls)
  })

  test.each(plays)("$name", ({ line, events }) => {
    expect(line.broken).toBe(null)
    validate(events)
    expect(ends(events)).toEqual(line.ends)
    const folded = fold(events)
    // Its processor takes a developer, who asks for a better answer, for the assistant.
    const asked = events.some((event) => event.role === "developer")
    expect(complaint.test(folded.text)).toBe(asked)
    expect(folded.text.replace(complaint, "")).toBe(line.text)
    expect(folded.calls).toEqual(line.calls)
  })
})

// As AG-UI's own schemas have them.
function validate(events) {
  for (const event of events) {
    const verdict = EventSchemas.safeParse(event)
    expect(verdict.success, `${JSON.stringify(event)}\n${verdict.error}`).toBe(true)
  }
}

// How each run ends; a run has one end, and nothing follows it but another run.
function ends(events) {
  const ends = []
  events.forEach((event, at) => {
    if (event.type !== "RUN_FINISHED" && event.type !== "RUN_ERROR") return
    expect([undefined, "RUN_STARTED"]).toContain(events[at + 1]?.type)
    ends.push(event.type === "RUN_ERROR" ? "error" : event.outcome.type)
  })
  return ends
}

// As TanStack's client takes what comes over a connection.
function fold(events) {
  const processor = new StreamProcessor()
  for (const event of structuredClone(events)) {
    const normal = normalizeStreamChunk(restoreInboundChunk(event))
    for (const chunk of [normal].flat()) processor.processChunk(chunk)
  }
  const messages = processor.getMessages().filter((message) => message.role === "assistant")
  const parts = messages.flatMap((message) => message.parts)
  const those = (type) => parts.filter((part) => part.type === type)
  const calls = those("tool-call").filter((part) => !part.metadata?.providerExecuted)
  return {
    text: those("text").map((part) => part.content).join(""),
    thinking: those("thinking").map((part) => part.content).join(""),
    calls: calls.map((part) => ({ name: part.name, arguments: JSON.parse(part.arguments) })),
  }
}

describe("an answer that is far too long is cut, and takes little memory:", () => {
  const wires = ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]
  test.each(wires.flatMap((wire) => [[wire, "huge"], [wire, "huge-frame"]]))("%s: %s", async (wire, scenario) => {
    const [{ line }] = await ours(url, wire, scenario)
    expect(line.error).toBe("too-large")
    if (scenario === "huge") expect(line.shownBytes).toBeGreaterThan(1 << 20)
    if (line.peakBytes !== null) expect(line.peakBytes).toBeLessThan(peakBytesMax)
  })
})
