// What a session's stream says, read without any of the page's code: the words that must be on the
// page, each once, in order.

/** The rows of a session, by type and key, each with its position. */
export async function readRows(url, id) {
  const session = `${url}/v1/sessions/${id}`
  await fetch(session, { method: "PUT" })
  const { token } = await (await fetch(`${session}/token`, { method: "POST" })).json()
  const headers = { authorization: `Bearer ${token}` }
  const tables = {}
  let [offset, position] = ["-1", 0]
  for (;;) {
    const answer = await fetch(`${url}/v1/stream/main/sessions/${id}?offset=${offset}`, { headers })
    if (!answer.ok) throw new Error(`reading ${id}: ${answer.status} ${await answer.text()}`)
    for (const { type, key, value, headers } of await answer.json()) {
      const table = (tables[type] ??= new Map())
      if (headers.operation === "delete") table.delete(key)
      else if (value) table.set(key, { ...value, position: table.get(key)?.position ?? position })
      position += 1
    }
    offset = answer.headers.get("stream-next-offset")
    if (answer.headers.has("stream-up-to-date")) break
  }
  const rows = (type) => [...(tables[type]?.values() ?? [])]
  return { messages: rows("message"), generations: rows("generation"), calls: rows("toolCall") }
}

/** Writes rows as an agent would. */
export async function appendRows(url, id, rows) {
  const events = rows.map(([type, key, value]) => {
    return { type, key, value: { id: key, ...value }, headers: { operation: "insert", txid: "t" } }
  })
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
