// One request, and an error that says what people can use.

/** The server refused: `message` is what it said. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

/** Nobody answered in this time, so nobody will. */
const TIME_MS_MAX = 15_000

export async function call(
  method: "POST" | "PUT",
  url: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<unknown> {
  const { text } = await send(method, url, body, headers)
  return text ? JSON.parse(text) : undefined
}

/** One request, and its whole answer, if the server does not refuse. */
export async function send(
  method: "GET" | "POST" | "PUT",
  url: string,
  body: object | undefined,
  headers: Record<string, string>,
): Promise<{ response: Response; text: string }> {
  const request: RequestInit = { method, headers, signal: AbortSignal.timeout(TIME_MS_MAX) }
  if (body) {
    request.body = JSON.stringify(body)
    headers["content-type"] = "application/json"
  }
  try {
    const response = await fetch(url, request)
    const text = await response.text()
    if (response.ok) return { response, text }
    throw new Refused(response.status, explain(response, text))
  } catch (error) {
    throw error instanceof Refused ? error : new Error("The server cannot be reached.")
  }
}

/** Problem details (RFC 9457) if there are any, else the status. */
function explain(response: Response, text: string): string {
  try {
    const { detail, title } = JSON.parse(text) as Record<string, unknown>
    const said = detail ?? title
    if (typeof said === "string") return sentence(said)
  } catch {
    // Not JSON: the status has to do.
  }
  return sentence(`The server answered ${response.status} ${response.statusText}`.trim())
}

function sentence(text: string): string {
  const start = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?…]$/.test(start) ? start : `${start}.`
}
