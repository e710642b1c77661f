// Pages of other origins, in a real browser: what they may not do to a server on the same machine
// that asks no program for a token.
import { createServer } from "node:http"
import { once } from "node:events"
import { chromium } from "playwright-core"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { Server } from "./server.mjs"

const BINARY = process.env.HEADWATER_BINARY
const ARTIFACTS = process.env.BROWSER_ARTIFACTS ?? "../target/browser"
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium"

/** Does as the victim would, if it runs in the server's origin. */
const SCRIPT = `<!doctype html><title>quiet</title><script>
  document.title = "ran"
  fetch("/v1/stream/stolen", { method: "PUT", headers: { "content-type": "text/plain" } })
</script>`

let server
let browser
let elsewhere
let foreign

beforeAll(async () => {
  if (!BINARY) throw new Error("HEADWATER_BINARY must name the headwater binary")
  server = new Server(BINARY, `${ARTIFACTS}/origins`)
  await server.start()
  elsewhere = createServer((_, answer) => {
    answer.setHeader("content-type", "text/html")
    answer.end("<title>another site</title>")
  })
  elsewhere.listen(0, "127.0.0.1")
  await once(elsewhere, "listening")
  foreign = `http://127.0.0.1:${elsewhere.address().port}`
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] })
})

afterAll(async () => {
  await browser?.close()
  elsewhere?.close()
  await server?.kill()
})

const stream = (name) => `${server.url}/v1/stream/${name}`

/** As a program does it. */
async function put(name, type, body) {
  const answer = await fetch(stream(name), {
    method: "PUT",
    headers: { "content-type": type },
    body,
  })
  expect(answer.status).toBe(201)
}

describe("a page of another origin", () => {
  test("stores, reads, lists and deletes nothing", async () => {
    await put("mine", "text/plain", "secret")
    const page = await browser.newPage()
    await page.goto(foreign)
    const seen = await page.evaluate(
      async ([root, script]) => {
        const html = { "content-type": "text/html" }
        const tries = [
          ["stream/evil", { method: "PUT", headers: html, body: script }],
          ["stream/mine", { method: "POST", headers: { "content-type": "text/plain" }, body: "x" }],
          ["stream/mine", { method: "POST", mode: "no-cors", body: "x" }],
          ["stream/mine?offset=-1", {}],
          ["stream/mine?offset=-1&live=sse", {}],
          ["stream/", {}],
          ["stream/mine", { method: "DELETE" }],
          ["sessions/some/token", { method: "POST" }],
        ]
        const seen = []
        for (const [path, init] of tries) {
          // What the browser itself refuses to show has status 0.
          const answer = await fetch(`${root}/v1/${path}`, init).catch(() => ({ status: 0 }))
          seen.push(answer.status)
        }
        return seen
      },
      [server.url, SCRIPT],
    )
    expect(seen).toEqual([401, 401, 0, 401, 401, 401, 401, 0])
    expect((await fetch(stream("evil"))).status).toBe(404)
    expect(await (await fetch(stream("mine"))).text()).toBe("secret")
    await page.close()
  })

  test.each([
    ["html", "text/html", SCRIPT],
    [
      "svg",
      "image/svg+xml",
      `<svg xmlns="http://www.w3.org/2000/svg"><script>fetch("/v1/stream/stolen",
        { method: "PUT", headers: { "content-type": "text/plain" } })</script></svg>`,
    ],
  ])("has nothing run of a stream of %s that it leads to", async (name, type, body) => {
    await put(name, type, body)
    const page = await browser.newPage()
    await page.goto(foreign)
    // The way of a link: refused, because the page is another site's.
    const answer = page.waitForResponse(stream(name))
    await page.evaluate((url) => void (location.href = url), stream(name))
    expect((await answer).status()).toBe(401)
    // The way of a person who types the address: saved, not shown.
    const saved = page.waitForEvent("download")
    await page.goto(stream(name)).catch(() => undefined)
    await (await saved).cancel()
    expect(await page.title()).not.toBe("ran")
    expect((await fetch(stream("stolen"))).status).toBe(404)
    await page.close()
  })
})
