// A stream that is followed for as long as the page is open.
//
// The client's own session ends for good when a connection breaks in the middle of an event, and
// when three connections in a row were short. This one begins again after the last whole batch,
// so every message comes once and in order, however often the server goes away.
import { FetchError, stream } from "@durable-streams/client"
import type { JsonBatch } from "@durable-streams/client"
import type { Access } from "./access"
import { Refused } from "./http"

export type Connection = "connecting" | "live" | "reconnecting" | "outrun" | "gone"

export type Batch = JsonBatch<unknown>

export interface Follower {
  onBatch(batch: Batch): void
  onConnection(connection: Connection): void
}

const PAUSE_MS_MIN = 200
const PAUSE_MS_MAX = 2_000

/** Follows the stream until `signal` says stop, or until nobody can say what comes next. */
export async function follow(
  url: string,
  access: Access,
  follower: Follower,
  signal: AbortSignal,
): Promise<void> {
  let offset = "-1"
  let pauseMs = PAUSE_MS_MIN
  follower.onConnection("connecting")
  while (!signal.aborted) {
    try {
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
        pauseMs = PAUSE_MS_MIN
        follower.onBatch(batch)
        follower.onConnection("live")
      })
      await session.closed
    } catch (error) {
      if (signal.aborted) return
      if (isStatus(error, 401)) access.forget()
      if (isFinal(error)) {
        // What comes next was compacted away: whoever has come this far must begin anew.
        follower.onConnection(isStatus(error, 410) && offset !== "-1" ? "outrun" : "gone")
        return
      }
    }
    if (signal.aborted) return
    follower.onConnection(offset === "-1" ? "connecting" : "reconnecting")
    await pause(pauseMs, signal)
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  }
}

function statusOf(error: unknown): number | undefined {
  return error instanceof FetchError || error instanceof Refused ? error.status : undefined
}

const isStatus = (error: unknown, status: number) => statusOf(error) === status

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
