// Pages of a session's stream: backwards from its end or from a place, or forwards.
import type { Access } from "./access"
import { Refused, send } from "./http"
import { readNotes } from "./notes"
import type { Page } from "./range"

/** Which page: what ends here, or what begins here. */
export type Place = { before: string } | { offset: string }

export const NEWEST: Place = { before: "now" }
export const OLDEST: Place = { offset: "-1" }

export interface Read extends Page {
  /** Whether nothing is on the other side of it, seen from where it was asked for. */
  isLast: boolean
}

/** Reads a page of about this many bytes. */
export type ReadPage = (place: Place, bytes: number) => Promise<Read>

export function pagesOf(url: string, access: Access): ReadPage {
  const ask = async (place: Place, bytes: number): Promise<Read> => {
    const query = new URLSearchParams({ ...place, bytes_max: String(bytes) })
    const headers = { authorization: await access.header() }
    const { response, text } = await send("GET", `${url}?${query}`, undefined, headers)
    return readAnswer(place, response.headers, text)
  }
  return async (place, bytes) => {
    try {
      return await ask(place, bytes)
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) throw error
      access.forget()
      return ask(place, bytes)
    }
  }
}

function readAnswer(place: Place, headers: Headers, text: string): Read {
  const items: unknown = JSON.parse(text)
  const end = headers.get("stream-next-offset")
  if (!Array.isArray(items) || !end) throw new Error("The server sent something else than a page.")
  const first = positionOf(end) - items.length
  const start = headers.get("stream-start-offset") ?? ("offset" in place ? place.offset : end)
  const isLast =
    "before" in place ? first === 0 || items.length === 0 : headers.has("stream-up-to-date")
  return { start, end, notes: readNotes(items, first, text.length), isLast }
}

/** Our offsets begin with the position of the next message. */
export function positionOf(offset: string): number {
  return Number.parseInt(offset, 10)
}
