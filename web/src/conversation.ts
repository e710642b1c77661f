// From rows to what is on the page, as docs/rows.md says: generation by generation, the messages
// it has read and then what it said. A pure function; nothing here knows a browser.
import type { Outgoing } from "./actions"
import type { Tables } from "./fold"
import type { Placed } from "./notes"
import type { Generation, Message, Resolution, Step, Stop, ToolCall } from "./rows.gen"

/** The rows of a part of a session. */
export interface SessionRows {
  messages: readonly Placed<Message>[]
  generations: readonly Placed<Generation>[]
  steps: readonly Step[]
  toolCalls: readonly ToolCall[]
  stops: readonly Placed<Stop>[]
  resolutions: readonly Resolution[]
  outbox: readonly Outgoing[]
  /** Who is at the page. */
  me: string
  /** Whether more follows that is not among these rows: then what they leave open, that ends. */
  isPast?: boolean
}

/** The rows of these tables. */
export function rowsOf(tables: Tables): Omit<SessionRows, "outbox" | "me"> {
  return {
    messages: [...tables.message.values()],
    generations: [...tables.generation.values()],
    steps: [...tables.step.values()],
    toolCalls: [...tables.toolCall.values()],
    stops: [...tables.stop.values()],
    resolutions: [...tables.resolution.values()],
  }
}

export interface Conversation {
  entries: Entry[]
  /** Whether somebody is at work, or will be as soon as it has looked. */
  isBusy: boolean
  /** What a stop would end, unless it is being stopped already. */
  running: { generationId?: string; isStopping: boolean } | undefined
}

/** What stands below one another. */
export type Entry = Said | Answer

/** What a person said. */
export interface Said {
  kind: "said"
  id: string
  text: string
  /** Who, if it is not who is at the page. */
  by?: string
  /** Where it is: on its way, refused, in the stream, or read. */
  state: "sending" | "refused" | "waiting" | "read"
  /** Why it could not be sent. */
  error?: string
}

/** What an agent said and did in one generation. */
export interface Answer {
  kind: "answer"
  id: string
  by: string
  state: Generation["status"]
  turns: Turn[]
  /** Whether something will come of which nothing is to be seen yet. */
  isThinking: boolean
  /** How it ended, if not well. */
  ending?: Ending
}

export interface Ending {
  tone: "stopped" | "failed"
  text: string
}

/** One message of an agent: finished, or growing while `parts` is absent. */
export interface Turn {
  id: string
  parts?: Part[]
  isGrowing: boolean
}

export type Part =
  | { kind: "text"; text: string }
  | { kind: "thinking"; text: string; isRedacted: boolean }
  | { kind: "call"; id: string; call?: Call }
  | { kind: "other"; text: string }

/** A tool call, in words. */
export interface Call {
  id: string
  name: string
  state: ToolCall["status"]
  status: string
  attempt: number
  durationMs?: number
  args: unknown
  result?: unknown
  error?: string
  /** Whether a person has to decide, and nobody has. */
  needsDecision: boolean
}

export function conversation(rows: SessionRows): Conversation {
  const ownMessages = groupBy(rows.messages, (message) => message.generationId ?? "")
  const told = rows.isPast ? rows.generations.map(endOf) : rows.generations
  const generations = [...told, ...impliedBy(ownMessages, told)].sort(byReach)
  const steps = groupBy(rows.steps, (step) => step.generationId)
  const calls = new Map(rows.toolCalls.map((call) => [call.id, describeCall(call, rows)]))
  const known = new Set(generations.map(({ id }) => id))
  const heard = rows.messages
    .filter(({ generationId }) => !known.has(generationId ?? ""))
    .sort(byPosition)

  const entries: Entry[] = []
  let next = 0
  for (const generation of generations) {
    for (; (heard[next]?.position ?? Infinity) <= generation.readUpTo; next += 1) {
      entries.push(tell(heard[next] as Message, "read", calls, rows.me))
    }
    const own = (ownMessages.get(generation.id) ?? []).sort(byPosition)
    const given = answer(generation, own, steps.get(generation.id) ?? [], calls)
    // Of an answer that ended just after these rows begin, all that was said is before them.
    if (given.turns.length || given.isThinking || given.ending) entries.push(given)
  }
  const unread = heard.slice(next)
  entries.push(
    ...unread.map((message) =>
      tell(message, isAsked(message) && !rows.isPast ? "waiting" : "read", calls, rows.me),
    ),
  )
  entries.push(...rows.outbox.filter(isNews(rows.messages)).map(announce))

  const working = generations.filter(isUnderWay)
  const asked = rows.isPast ? [] : unread.filter(isAsked)
  const isBusy = working.length > 0 || asked.length > 0
  return { entries, isBusy, running: isBusy ? findRunning(working, asked, rows.stops) : undefined }
}

type Calls = ReadonlyMap<string, Call>

const byPosition = (one: { position: number }, other: { position: number }) =>
  one.position - other.position

const byReach = (one: Placed<Generation>, other: Placed<Generation>) =>
  one.readUpTo - other.readUpTo || one.createdAt.localeCompare(other.createdAt)

/** Whether it is for an agent; the rest is said among people. */
const isAsked = ({ role, targetAgent }: Message) => role === "user" && Boolean(targetAgent)

const isUnderWay = ({ status }: Generation) => status === "pending" || status === "generating"

/** A generation of which the end is not known, and does not matter. */
function endOf(generation: Placed<Generation>): Placed<Generation> {
  return isUnderWay(generation) ? { ...generation, status: "completed" } : generation
}

/** Generations whose messages are among the rows, but not they themselves. */
function impliedBy(
  ownMessages: ReadonlyMap<string, Placed<Message>[]>,
  told: readonly Generation[],
): Placed<Generation>[] {
  const known = new Set(["", ...told.map(({ id }) => id)])
  return [...ownMessages].flatMap(([id, messages]) => {
    const first = messages.reduce((one, other) => (one.position < other.position ? one : other))
    if (known.has(id) || first.role === "user") return []
    const { actorId: agentName, createdAt, position } = first
    const at = { position, createdAt, updatedAt: createdAt, readUpTo: reachOf(id, position) }
    return [{ id, agentName, model: "", status: "completed" as const, ...at }]
  })
}

/** A generation is named after what it has read, which was there before its first message. */
function reachOf(id: string, position: number): number {
  const named = /-(\d+)$/.exec(id)?.[1]
  return Math.min(named === undefined ? position : Number(named), position - 1)
}

function isNews(messages: readonly Message[]): (outgoing: Outgoing) => boolean {
  const arrived = new Set(messages.map(({ id }) => id))
  return ({ id }) => !arrived.has(id)
}

function announce({ id, text, error }: Outgoing): Said {
  const said = { kind: "said" as const, id, text }
  return error === undefined ? { ...said, state: "sending" } : { ...said, state: "refused", error }
}

function tell(message: Message, state: Said["state"], calls: Calls, me: string): Entry {
  const { id, role, content, actorId } = message
  if (role === "user") {
    return { kind: "said", id, text: content, state, ...(actorId !== me && { by: actorId }) }
  }
  const turns = [{ id, parts: partsOf(message, calls), isGrowing: false }]
  return { kind: "answer", id, by: actorId, state: "completed", turns, isThinking: false }
}

function answer(
  generation: Generation,
  messages: readonly Message[],
  steps: readonly Step[],
  calls: Calls,
): Answer {
  const finished = new Set(messages.map(({ id }) => id))
  const turns: Turn[] = messages.map((message) => {
    return { id: message.id, parts: partsOf(message, calls), isGrowing: false }
  })
  // The message of a step that is completed is there, or before all these rows.
  const unfinished = steps
    .filter(({ id, status }) => !finished.has(id) && status !== "completed")
    .sort((a, b) => a.turn - b.turn)
  for (const { id, status } of unfinished) {
    turns.push({ id, isGrowing: status === "started" && isUnderWay(generation) })
  }
  const { id, agentName: by, status: state } = generation
  const ending = describeEnding(generation)
  const isThinking =
    isUnderWay(generation) && !turns.some((turn) => turn.isGrowing || awaitsCall(turn))
  return { kind: "answer", id, by, state, turns, isThinking, ...(ending && { ending }) }
}

const ENDED = new Set(["completed", "failed", "cancelled"])

function awaitsCall({ parts = [] }: Turn): boolean {
  return parts.some((part) => part.kind === "call" && part.call && !ENDED.has(part.call.state))
}

function describeEnding({ status, cancelledBy, error }: Generation): Ending | undefined {
  if (status === "failed") return { tone: "failed", text: error ?? "The answer failed." }
  if (status !== "cancelled") return undefined
  if (cancelledBy === "timeout") return { tone: "stopped", text: "Stopped: it took too long." }
  if (cancelledBy === "error") return { tone: "failed", text: error ?? "Stopped by an error." }
  return { tone: "stopped", text: "Stopped." }
}

function findRunning(
  working: readonly Generation[],
  asked: readonly Placed<Message>[],
  stops: readonly Placed<Stop>[],
): Conversation["running"] {
  const generation = working[0]
  if (!generation) {
    const last = asked.at(-1)?.position ?? 0
    const isStopping = stops.some((stop) => !stop.generationId && stop.position > last)
    return { isStopping }
  }
  const ends = (stop: Placed<Stop>) =>
    stop.generationId ? stop.generationId === generation.id : stop.position > generation.readUpTo
  return { generationId: generation.id, isStopping: stops.some(ends) }
}

/** What a part may say; the schema leaves it open. */
interface RawPart {
  type?: unknown
  text?: unknown
  redacted?: unknown
  id?: unknown
}

function partsOf(message: Message, calls: Calls): Part[] {
  const { content, parts } = message
  if (!Array.isArray(parts)) return content ? [{ kind: "text", text: content }] : []
  return (parts as (RawPart | null)[]).flatMap((part): Part[] => {
    const text = typeof part?.text === "string" ? part.text : undefined
    switch (part?.type) {
      case "text":
        return [{ kind: "text", text: text ?? content }]
      case "thinking":
        return [{ kind: "thinking", text: text ?? "", isRedacted: part.redacted === true }]
      case "tool-call": {
        const id = String(part.id)
        const call = calls.get(id)
        return [{ kind: "call", id, ...(call && { call }) }]
      }
      case "other":
        return [{ kind: "other", text: "Something that this page cannot show." }]
      default:
        return []
    }
  })
}

const STATUS: Record<ToolCall["status"], string> = {
  pending: "waiting",
  executing: "running",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
  parked: "needs a decision",
}

const CANCELLED_BY: Record<NonNullable<ToolCall["cancelledBy"]>, string> = {
  user: "stopped",
  timeout: "timed out",
  error: "cancelled by an error",
}

function describeCall(row: ToolCall, { resolutions }: SessionRows): Call {
  const { id, name, status: state, attempt, args, result, error } = row
  const isDecided = resolutions.some((it) => it.toolCallId === id && it.attempt === attempt)
  const durationMs = Date.parse(row.completedAt ?? "") - Date.parse(row.startedAt ?? row.createdAt)
  return {
    id,
    name,
    state,
    status: describeStatus(row, isDecided),
    attempt,
    args,
    needsDecision: state === "parked" && !isDecided,
    ...(Number.isFinite(durationMs) && { durationMs: Math.max(durationMs, 0) }),
    ...(result !== undefined && result !== null && { result }),
    ...(error && { error }),
  }
}

function describeStatus(row: ToolCall, isDecided: boolean): string {
  const { status, cancelledBy, attempt } = row
  // A later version may know more words than we do.
  const word = STATUS[status] ?? status
  if (status === "cancelled") {
    const how = cancelledBy ? (CANCELLED_BY[cancelledBy] ?? word) : word
    return row.isLate ? `${how}, answered too late` : how
  }
  if (status === "parked" && isDecided) return "decided"
  if (status === "executing" && attempt > 1) return `${word}, attempt ${attempt}`
  if (status === "completed" && row.isLate) return "done, too late"
  return word
}

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const group = groups.get(keyOf(item))
    if (group) group.push(item)
    else groups.set(keyOf(item), [item])
  }
  return groups
}

/** The entries, each the object it was before if it says the same, so that it is not drawn again. */
export function keepSame(before: readonly Entry[], now: readonly Entry[]): Entry[] {
  const known = new Map(before.map((entry) => [entry.id, entry]))
  return now.map((entry) => {
    const old = known.get(entry.id)
    return old && isEqual(old, entry) ? old : entry
  })
}

function isEqual(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => isEqual(Reflect.get(one, name), Reflect.get(other, name)))
  )
}
