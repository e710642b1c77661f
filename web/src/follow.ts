// A stream that is followed for as long as the page is open.
//
// The client's own session ends for good when a connection breaks in the middle of an event, and
// when three connections in a row were short. This one begins again after the last whole batch,
// so every message comes once and in order, however often the server goes away.
import { FetchError, stream } from "@durable-streams/client"
import type { JsonBatch } from "@durable-streams/client"
import type { Access } from "./access"
import { Refused } from "./http"

export type Connection = "connecting" | "live" | "reconnecting" | "gone"

/** Why nothing follows: what comes next was trimmed, there is no stream, or the page closed. */
export type End = "trimmed" | "gone" | "closed"

export type Batch = JsonBatch<unknown>

export interface Follower {
  onBatch(batch: Batch): void
  onConnection(connection: Connection): void
}

const PAUSE_MS_MIN = 200
const PAUSE_MS_MAX = 2_000

/** Follows the stream from this offset, until `signal` says stop or nothing can follow. */
export async function follow(
  url: string,
  access: Access,
  from: string,
  follower: Follower,
  signal: AbortSignal,
): Promise<End> {
  let offset = from
  const connect = async (hasWorked: () => void) => {
    const session = await stream({
      url,
      offset,
      live: "sse",
      json: true,
      signal,
      headers: { authorization: () => access.header() },
      backoffOptions: { initialDelay: 0, maxDelay: 0, multiplier: 1, maxRetries: 0 },
      sseResilience: { logWarnings: false },
      warnOnHttp: false,
    })
    session.subscribeJson((batch) => {
      // What was cut off in the middle comes under the offset of what came before it. It will
      // come again, whole.
      const isWhole = batch.items.length === 0 || batch.offset !== offset
      if (!isWhole || signal.aborted) return
      offset = batch.offset
      hasWorked()
      follower.onBatch(batch)
      follower.onConnection("live")
    })
    await session.closed
    throw new Error("a connection ends, a session does not")
  }
  const onFailure = () => follower.onConnection("reconnecting")
  return (await insist(connect, access, signal, onFailure)) ?? "closed"
}

/** Tries until it succeeds, with pauses that grow; or says why it never will. */
export async function insist(
  work: (hasWorked: () => void) => Promise<void>,
  access: Access,
  signal: AbortSignal,
  onFailure: () => void,
): Promise<End | undefined> {
  let pauseMs = PAUSE_MS_MIN
  const hasWorked = () => (pauseMs = PAUSE_MS_MIN)
  while (!signal.aborted) {
    try {
      await work(hasWorked)
      return undefined
    } catch (error) {
      if (signal.aborted) break
      if (isStatus(error, 401)) access.forget()
      if (isFinal(error)) return isStatus(error, 410) ? "trimmed" : "gone"
    }
    onFailure()
    await pause(pauseMs, signal)
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  }
  return "closed"
}

function statusOf(error: unknown): number | undefined {
  return error instanceof FetchError || error instanceof Refused ? error.status : undefined
}

export const isStatus = (error: unknown, status: number) => statusOf(error) === status

/** What a client does wrong it does wrong again; these it can do better the next time. */
const WORTH_A_RETRY = new Set([401, 408, 429])

function isFinal(error: unknown): boolean {
  const status = statusOf(error) ?? 0
  return status >= 400 && status < 500 && !WORTH_A_RETRY.has(status)
}

/** Waits, but not when the network has just come back. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      removeEventListener("online", end)
      signal.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    addEventListener("online", end)
    signal.addEventListener("abort", end)
  })
}
