// What a session's stream says, read without any of the page's code: the words that must be on the
// page, each once, in order.

/** The rows of a session, by type and key, each with its position. */
export async function readRows(url, id) {
  const session = `${url}/v1/sessions/${id}`
  await fetch(session, { method: "PUT" })
  const { token } = await (await fetch(`${session}/token`, { method: "POST" })).json()
  const headers = { authorization: `Bearer ${token}` }
  const tables = {}
  let offset = "-1"
  for (;;) {
    const answer = await fetch(`${url}/v1/stream/main/sessions/${id}?offset=${offset}`, { headers })
    if (!answer.ok) throw new Error(`reading ${id}: ${answer.status} ${await answer.text()}`)
    const events = await answer.json()
    offset = answer.headers.get("stream-next-offset")
    // What was compacted begins later than at 0, and says itself where its rows were made.
    let lies = positionIn(offset) - events.length
    for (const { type, key, value, headers } of events) {
      const table = (tables[type] ??= new Map())
      const made = headers["headwater.inserted"] ?? headers["headwater.position"] ?? lies
      const position = table.get(key)?.position ?? Number(made)
      if (headers.operation === "delete") table.delete(key)
      else if (value) table.set(key, { ...value, position })
      lies += 1
    }
    if (answer.headers.has("stream-up-to-date")) break
  }
  const rows = (type) => [...(tables[type]?.values() ?? [])]
  return { messages: rows("message"), generations: rows("generation"), calls: rows("toolCall") }
}

/** The position that an offset names. */
function positionIn(offset) {
  return Number(offset.split("_")[0])
}

/** Writes rows as an agent would. */
export function appendRows(url, id, rows) {
  const events = rows.map(([type, key, value]) => {
    return { type, key, value: { id: key, ...value }, headers: { operation: "insert", txid: "t" } }
  })
  return appendEvents(url, id, events)
}

/** Rows of one request. */
const ROWS_AT_ONCE = 2_000

/**
 * Writes a session of so many messages: a person asks, an agent answers, and now and then it calls
 * a tool first. All of it is over, so no agent goes on with it.
 */
export async function writeSession(url, id, messages) {
  await fetch(`${url}/v1/sessions/${id}`, { method: "PUT" })
  let [position, rows] = [0, []]
  const write = async (events) => {
    rows.push(...events)
    position += events.length
    if (rows.length >= ROWS_AT_ONCE) await appendEvents(url, id, rows.splice(0))
  }
  for (let n = 0; n < messages / 2; n += 1) await write(roundOf(n, position))
  await appendEvents(url, id, rows)
}

/** A question and its answer, the first row of which stands at `position`. */
function roundOf(n, position) {
  const createdAt = new Date(Date.UTC(2026, 0, 1) + n * 60_000).toISOString()
  const times = { createdAt, updatedAt: createdAt }
  const generationId = `assistant-${position}`
  const message = `${generationId}:1`
  const call = `${message}:0`
  const by = { agentName: "assistant", model: "none", readUpTo: position, ...times }
  const step = { generationId, turn: 1, attempt: 1, firstChunk: 0, startedAt: createdAt }
  const text = `Answer ${n}. ${"It is as it was, and a little longer. ".repeat(n % 4)}`.trim()
  const said = { role: "assistant", content: text, actorId: "assistant", generationId, createdAt }
  const look = { name: "look", args: { n }, effect: "pure", attempt: 1, status: "completed" }
  const hasCall = n % 10 === 0
  const parts = [{ type: "text" }, { type: "tool-call", id: call }]
  const asked = { role: "user", content: `Question ${n}?`, actorId: "ada", createdAt }
  const event = (operation, type, id, value) => {
    return { type, key: id, value: { id, ...value }, headers: { operation } }
  }
  return [
    event("insert", "message", `q${n}`, { ...asked, targetAgent: "assistant" }),
    event("insert", "generation", generationId, { ...by, status: "generating" }),
    event("insert", "step", message, { ...step, status: "started" }),
    event("insert", "message", message, { ...said, ...(hasCall && { parts }) }),
    ...(hasCall
      ? [
          event("insert", "toolCall", call, {
            ...look,
            ...times,
            generationId,
            messageId: message,
            result: n,
          }),
        ]
      : []),
    event("update", "step", message, { ...step, status: "completed", completedAt: createdAt }),
    event("update", "generation", generationId, {
      ...by,
      status: "completed",
      completedAt: createdAt,
    }),
  ]
}

async function appendEvents(url, id, events) {
  if (events.length === 0) return
  const request = { method: "POST", headers: { "content-type": "application/json" } }
  const body = JSON.stringify(events)
  const answer = await fetch(`${url}/v1/stream/main/sessions/${id}`, { ...request, body })
  if (!answer.ok) throw new Error(`writing ${id}: ${answer.status} ${await answer.text()}`)
}

/** The conversation as lines: who, and what they said. */
export async function readLines(url, id) {
  const { messages, generations } = await readRows(url, id)
  const inOrder = messages.sort((one, other) => one.position - other.position)
  const asked = inOrder.filter(({ generationId }) => !generationId)
  const lines = []
  for (const { id, readUpTo } of generations.sort((one, other) => one.readUpTo - other.readUpTo)) {
    while (asked[0]?.position <= readUpTo) lines.push(`you: ${squeeze(asked.shift().content)}`)
    const said = inOrder.filter(({ generationId }) => generationId === id)
    lines.push(`agent: ${squeeze(said.map(({ content }) => content).join(" "))}`)
  }
  return lines.concat(asked.map(({ content }) => `you: ${squeeze(content)}`))
}

/** Spaces, ends of lines and the fences of code are the layout's business. */
export function squeeze(text) {
  return text
    .replace(/^```.*$/gm, "")
    .replace(/\s+/g, " ")
    .trim()
}
