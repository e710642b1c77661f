// A server and a browser for the tests of one file.
import { mkdirSync } from "node:fs"
import { chromium } from "playwright-core"
import { afterAll, afterEach, beforeAll, beforeEach, onTestFailed } from "vitest"
import { Tab } from "./page.mjs"
import { Server } from "./server.mjs"

export const BINARY = process.env.HEADWATER_BINARY
export const ARTIFACTS = process.env.BROWSER_ARTIFACTS ?? "../target/browser"
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium"

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
]

/** Starts both before the tests of this file, and ends them afterwards. */
export function setStage(name) {
  let browser
  let contexts = []
  let count = 0
  const stage = { server: undefined, complaints: [], id: undefined, open, shoot }

  beforeAll(async () => {
    if (!BINARY) throw new Error("HEADWATER_BINARY must name the headwater binary")
    mkdirSync(ARTIFACTS, { recursive: true })
    stage.server = new Server(BINARY, `${ARTIFACTS}/${name}`)
    await stage.server.start()
    browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS })
  })

  afterAll(async () => {
    await browser?.close()
    await stage.server?.kill()
  })

  beforeEach(() => {
    count += 1
    stage.id = `test-${count}`
    stage.complaints = []
  })

  afterEach(async () => {
    await Promise.all(contexts.splice(0).map((context) => context.close()))
  })

  /** A tab with this session. */
  async function open(options = {}, place = `/s/${stage.id}`) {
    const context = await browser.newContext({ viewport: { width: 1000, height: 760 }, ...options })
    contexts.push(context)
    const page = await context.newPage()
    page.on("pageerror", (error) => stage.complaints.push(error.message))
    page.on("console", (line) => {
      // A browser without a server to ask says so; that is no fault of the page.
      const isOfNetwork =
        line.text().includes("net::ERR_") || line.text().includes("Failed to load")
      if (line.type() === "error" && !isOfNetwork) stage.complaints.push(line.text())
    })
    page.on("request", (request) => {
      const isElsewhere = new URL(request.url()).origin !== stage.server.url
      if (isElsewhere) stage.complaints.push(`asks ${request.url()}`)
    })
    const failed = `failed-${name}-${count}-${contexts.length}`
    const path = `${ARTIFACTS}/${failed}.png`
    onTestFailed(() => page.screenshot({ path }).catch(() => undefined))
    await page.goto(stage.server.url + place)
    return new Tab(page)
  }

  function shoot(tab, name) {
    return tab.page.screenshot({ path: `${ARTIFACTS}/${name}.png` })
  }

  return stage
}
