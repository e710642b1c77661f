// The vendors' own SDKs read the server of model wires. Each answer becomes one line of the same
// shape, so that it can stand beside ours. As a program: `node models.sdks.mjs URL` prints them.
import Anthropic from "@anthropic-ai/sdk"
import { GoogleGenAI } from "@google/genai"
import { Ollama } from "ollama"
import OpenAI from "openai"

// Nobody here is patient, but a refusal that passes must be tried again.
const retries = 2
const question = "What is the weather in Oslo?"
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
const describe = (name) => ({ name, description: `Tells the ${name}.` })
const names = ["weather", "forecast", "now"]

// The words of each vendor for why an answer ends.
const stops = {
  stop: "stop", end_turn: "stop", completed: "stop", STOP: "stop",
  tool_calls: "tool_calls", tool_use: "tool_calls",
  length: "length", max_tokens: "length", max_output_tokens: "length", MAX_TOKENS: "length",
  content_filter: "content_filter", SAFETY: "content_filter",
  refusal: "refusal",
}

// What an SDK has shown so far; an error leaves it as it was.
class Shown {
  text = ""
  thinking = ""
  // What the provider wants to see again.
  signature = ""
  calls = []
  // How many tools the provider ran.
  ran = 0
  usage = null
  stop = null
}

async function chat(url, model, shown) {
  const client = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: "key", maxRetries: retries, logLevel: "off" })
  const stream = client.chat.completions.stream({
    model,
    messages: [{ role: "user", content: question }],
    tools: names.map((name) => ({ type: "function", function: { ...describe(name), parameters: schema } })),
    stream_options: { include_usage: true },
  })
  stream.on("chunk", (chunk) => {
    const delta = chunk.choices[0]?.delta
    // The SDK knows nothing of thoughts, which only compatible servers send; it passes them on.
    shown.thinking += delta?.reasoning_content ?? ""
    shown.text += delta?.content ?? delta?.refusal ?? ""
    if (chunk.usage) shown.usage = { input: chunk.usage.prompt_tokens, output: chunk.usage.completion_tokens }
  })
  const whole = await stream.finalChatCompletion()
  const { message, finish_reason } = whole.choices[0]
  shown.text = message.content || message.refusal || ""
  shown.calls = (message.tool_calls ?? []).map(({ function: it }) => call(it.name, JSON.parse(it.arguments)))
  // A refusal is a field of the message; the reason is that of any other end.
  shown.stop = message.refusal ? "refusal" : stops[finish_reason]
}

async function responses(url, model, shown) {
  const client = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: "key", maxRetries: retries, logLevel: "off" })
  const stream = client.responses.stream({
    model,
    input: question,
    tools: names.map((name) => ({ type: "function", ...describe(name), parameters: schema, strict: false })),
  })
  stream.on("response.output_text.delta", (event) => (shown.text += event.delta))
  const whole = await stream.finalResponse()
  if (whole.status === "failed") throw Object.assign(new Error(whole.error.message), { kind: "unavailable" })
  // The SDK hands on a response that was never completed as if it were the last word.
  if (whole.status === "in_progress") throw Object.assign(new Error("never completed"), { kind: "truncated" })
  const messages = whole.output.filter((item) => item.type === "message").flatMap((item) => item.content)
  shown.text = messages.map((part) => part.text ?? part.refusal).join("")
  const thoughts = whole.output.filter((item) => item.type === "reasoning").flatMap((item) => item.summary)
  shown.thinking = thoughts.map((part) => part.text).join("")
  const sealed = whole.output.filter((item) => item.type === "reasoning")
  shown.signature = sealed.map((item) => item.encrypted_content).join("")
  shown.ran = whole.output.filter((item) => item.type === "web_search_call").length
  const calls = whole.output.filter((item) => item.type === "function_call")
  shown.calls = calls.map((it) => call(it.name, JSON.parse(it.arguments)))
  shown.usage = { input: whole.usage.input_tokens, output: whole.usage.output_tokens }
  // There is no word for calls or refusals: they are items and parts.
  const reason = messages.some((part) => part.type === "refusal") ? "refusal" : "stop"
  const incomplete = whole.incomplete_details?.reason
  shown.stop = incomplete ? stops[incomplete] : calls.length ? "tool_calls" : reason
}

async function anthropic(url, model, shown) {
  // Nothing of the environment may get in.
  const own = { apiKey: "key", authToken: null, maxRetries: retries, logLevel: "off" }
  const client = new Anthropic({ ...own, baseURL: `${url}/anthropic` })
  const stream = client.messages.stream({
    model,
    max_tokens: 1000,
    messages: [{ role: "user", content: question }],
    tools: names.map((name) => ({ ...describe(name), input_schema: schema })),
  })
  stream.on("text", (delta) => (shown.text += delta))
  const whole = await stream.finalMessage()
  const those = (type) => whole.content.filter((block) => block.type === type)
  shown.text = those("text").map((block) => block.text).join("")
  shown.thinking = those("thinking").map((block) => block.thinking).join("")
  shown.signature = those("thinking").map((block) => block.signature).join("")
  shown.ran = those("server_tool_use").length
  shown.calls = those("tool_use").map((block) => call(block.name, block.input))
  shown.usage = { input: whole.usage.input_tokens, output: whole.usage.output_tokens }
  shown.stop = whole.stop_reason === null ? null : stops[whole.stop_reason]
}

async function gemini(url, model, shown) {
  const httpOptions = { baseUrl: `${url}/gemini`, retryOptions: { attempts: retries, initialDelay: 0.01 } }
  const client = new GoogleGenAI({ apiKey: "key", httpOptions })
  const functionDeclarations = names.map((name) => ({ ...describe(name), parametersJsonSchema: schema }))
  const stream = await client.models.generateContentStream({
    model,
    contents: question,
    config: { tools: [{ functionDeclarations }], automaticFunctionCalling: { disable: true } },
  })
  let reason
  for await (const chunk of stream) {
    const candidate = chunk.candidates?.[0]
    for (const part of candidate?.content?.parts ?? []) {
      shown.signature += part.thoughtSignature ?? ""
      if (part.executableCode) shown.ran += 1
      else if (part.functionCall) shown.calls.push(call(part.functionCall.name, part.functionCall.args))
      else if (part.thought) shown.thinking += part.text
      else shown.text += part.text ?? ""
    }
    const usage = chunk.usageMetadata
    // Thoughts are counted beside the candidates; everybody else counts them as output.
    const output = (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0)
    if (usage) shown.usage = { input: usage.promptTokenCount, output }
    reason = candidate?.finishReason ?? reason
  }
  // The SDK hands on what it has and leaves it to us to see that the last chunk never came.
  if (!reason) throw Object.assign(new Error("no finishReason"), { kind: "truncated" })
  shown.stop = stops[reason] === "stop" && shown.calls.length ? "tool_calls" : stops[reason]
}

async function ollama(url, model, shown) {
  const client = new Ollama({ host: `${url}/ollama` })
  const asked = {
    model,
    messages: [{ role: "user", content: question }],
    tools: names.map((name) => ({ type: "function", function: { ...describe(name), parameters: schema } })),
    stream: true,
  }
  // The SDK tries nothing again.
  const again = (error) => (error.status_code === 429 ? client.chat({ ...asked }) : Promise.reject(error))
  const stream = await client.chat({ ...asked }).catch(again)
  for await (const { message, done, ...rest } of stream) {
    shown.text += message.content
    shown.thinking += message.thinking ?? ""
    for (const { function: it } of message.tool_calls ?? []) shown.calls.push(call(it.name, it.arguments))
    if (!done) continue
    shown.usage = { input: rest.prompt_eval_count, output: rest.eval_count }
    const reason = stops[rest.done_reason] ?? null
    shown.stop = reason === "stop" && shown.calls.length ? "tool_calls" : reason
  }
}

const call = (name, args) => ({ name, arguments: args })

export const sdks = { "openai-chat": chat, "openai-responses": responses, anthropic, gemini, ollama }

// What an error of an SDK means, in our words.
function kind(error) {
  const status = error.status ?? error.status_code
  if (error.kind) return error.kind
  if (/API_KEY_INVALID|API key not valid/.test(error.message)) return "unauthorized"
  if (status === 401) return "unauthorized"
  if (status === 404) return "unknown-model"
  if (status === 429) return "rate-limited"
  if (status >= 500) return "unavailable"
  if (status >= 400) return "bad-request"
  if (/JSON/.test(`${error.name} ${error.message} ${error.cause}`)) return "malformed"
  // What a provider says of itself within a stream has no status.
  if (/overloaded|server_error|had an error|EOF/i.test(`${error.type} ${error.message}`)) return "unavailable"
  return "truncated"
}

// One line: what this SDK makes of this scenario.
export async function ask(url, provider, scenario) {
  const shown = new Shown()
  let error = null
  let why
  try {
    await sdks[provider](url, scenario, shown)
  } catch (thrown) {
    error = kind(thrown)
    why = `${thrown.name}: ${thrown.message}`
  }
  return { provider, scenario, ...shown, error, ...(why && { why }) }
}

if (process.argv[1] === import.meta.filename) {
  const [url, ...scenarios] = process.argv.slice(2)
  for (const scenario of scenarios)
    for (const provider of Object.keys(sdks)) console.log(JSON.stringify(await ask(url, provider, scenario)))
}
