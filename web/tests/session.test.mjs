// The page in a real browser, on the real server with the scripted model. Nothing waits for time to
// pass: only for what a person would wait for.
import { describe, expect, test } from "vitest"
import { appendRows, readLines, readRows } from "./rows.mjs"
import { setStage } from "./stage.mjs"

/** Answers take seconds; the one to this takes a while. */
const STORY = "Tell me a long story."
const QUESTION = "How does this work?"
const WEATHER = "What is the weather in Oslo and in Lima?"

const stage = setStage("session")
const { open, shoot } = stage

/** The page shows what the stream says, each thing once and in order, and complains of nothing. */
async function agrees(tab) {
  expect(await tab.lines()).toEqual(await readLines(stage.server.url, stage.id))
  expect(stage.complaints).toEqual([])
}

describe("the page of a session", () => {
  test("leads from / to a session, and says which it is", async () => {
    const tab = await open({}, "/")
    await tab.page.waitForURL(/\/s\/[^/]+$/)
    const [name] = new URL(tab.page.url()).pathname.split("/").slice(-1)
    await tab.page.waitForFunction((name) => document.title.includes(name), name)
    await tab.page.getByRole("link", { name: "New session" }).click()
    await tab.page.waitForURL((url) => !url.pathname.endsWith(`/${name}`))
    await tab.page.getByRole("heading", { name: "Say something." }).waitFor()
    await shoot(tab, "empty")
    expect(stage.complaints).toEqual([])
  })

  test("shows an answer as it is written", async () => {
    const tab = await open()
    await tab.page.getByRole("button", { name: STORY }).waitFor()
    await tab.watchLength()
    await tab.send(QUESTION)
    await tab.growsTo(60)
    await shoot(tab, "streaming")
    await tab.settles(1)
    const lengths = await tab.lengths()
    expect(new Set(lengths).size).toBeGreaterThan(5)
    await agrees(tab)
  })

  test("shows what tools were called with and what they said", async () => {
    const tab = await open()
    await tab.send(WEATHER)
    await tab.settles(1)
    const calls = tab.log.locator(".call")
    expect(await calls.count()).toBe(2)
    for (const [n, city] of ["Oslo", "Lima"].entries()) {
      const summary = calls.nth(n).locator("summary")
      expect(await summary.innerText()).toMatch(
        new RegExp(`weather\\s+${city}\\s+done\\s+[\\d.]+ m?s`, "i"),
      )
      await summary.click()
      expect(await calls.nth(n).innerText()).toMatch(/Arguments[\s\S]*Result/)
    }
    await tab.log.getByText("Thoughts").first().click()
    await shoot(tab, "tools")
    await agrees(tab)
  })

  test("goes on after a refresh in the middle of an answer", async () => {
    const tab = await open()
    await tab.send(STORY)
    await tab.growsTo(60)
    const before = (await tab.lines()).at(-1)
    await tab.page.reload()
    await tab.growsTo(60)
    expect((await tab.lines()).at(-1).startsWith(before)).toBe(true)
    await tab.settles(1)
    await agrees(tab)
  })

  test("is the same in a second tab, live", async () => {
    const [one, other] = [await open(), await open()]
    await one.send(QUESTION)
    await Promise.all([one.growsTo(60), other.growsTo(60)])
    await Promise.all([one.settles(1), other.settles(1)])
    await other.send("And what time is it?")
    await Promise.all([one.settles(2), other.settles(2)])
    expect(await one.lines()).toEqual(await other.lines())
    await agrees(one)
  })

  test("stops an answer, and keeps what was said", async () => {
    const tab = await open()
    await tab.send(STORY)
    await tab.growsTo(60)
    await tab.stopButton.click()
    await tab.log.getByText("Stopped.").waitFor()
    await tab.stopButton.waitFor({ state: "detached" })
    const left = (await tab.lines()).at(-1)
    expect(left.length).toBeGreaterThan(60)
    await shoot(tab, "stopped")
    await tab.page.reload()
    await tab.log.getByText("Stopped.").waitFor()
    expect((await tab.lines()).at(-1)).toBe(left)
    const { generations } = await readRows(stage.server.url, stage.id)
    expect(generations.map(({ status, cancelledBy }) => [status, cancelledBy])).toEqual([
      ["cancelled", "user"],
    ])
    await tab.send("hello")
    await tab.settles(2)
    expect(stage.complaints).toEqual([])
  })

  test("goes on by itself when the server was killed in the middle of an answer", async () => {
    const tab = await open()
    await tab.page.evaluate(() => (window.isSamePage = true))
    await tab.send(STORY)
    await tab.growsTo(60)
    await stage.server.kill()
    await tab.connection.getByText("Reconnecting").waitFor()
    await shoot(tab, "reconnecting")
    await stage.server.start()
    await tab.settles(1)
    expect(await tab.connection.innerText()).toBe("")
    expect(await tab.page.evaluate(() => window.isSamePage)).toBe(true)
    expect((await tab.lines()).length).toBe(2)
    await agrees(tab)
  })

  test("keeps a message that could not be sent, and says it once", async () => {
    const tab = await open()
    await tab.send("hello")
    await tab.settles(1)
    await stage.server.kill()
    await tab.connection.getByText("Reconnecting").waitFor()
    await tab.send("Are you there?")
    const retry = tab.log.getByRole("button", { name: "Retry" })
    await retry.waitFor()
    await shoot(tab, "refused")
    await stage.server.start()
    await retry.click()
    await tab.settles(2)
    expect((await tab.lines()).filter((line) => line === "you: Are you there?").length).toBe(1)
    await agrees(tab)
  })

  test("takes two messages in quick succession", async () => {
    const tab = await open()
    await tab.message.fill(QUESTION)
    await tab.message.press("Enter")
    await tab.message.fill("And what time is it?")
    await tab.message.press("Enter")
    await tab.settles(1)
    const said = (await tab.lines()).filter((line) => line.startsWith("you: "))
    expect(said.length).toBe(2)
    await agrees(tab)
  })

  test("can be used with the keyboard alone", async () => {
    const tab = await open()
    const { keyboard } = tab.page
    await tab.page.getByRole("button", { name: STORY }).waitFor()
    // The box has the focus from the start.
    await keyboard.type("Tell me")
    await keyboard.press("Shift+Enter")
    await keyboard.type("a long story.")
    expect(await tab.message.inputValue()).toBe("Tell me\na long story.")
    await keyboard.press("Enter")
    expect(await tab.message.inputValue()).toBe("")
    await tab.growsTo(60)
    await keyboard.press("Escape")
    await tab.log.getByText("Stopped.").waitFor()
    await keyboard.type(WEATHER)
    await keyboard.press("Enter")
    await tab.settles(2)
    // From the box back into the conversation: the last call is where Shift and Tab lead first.
    await keyboard.press("Shift+Tab")
    await keyboard.press("Enter")
    await tab.log.locator(".call details[open]").waitFor()
    expect(stage.complaints).toEqual([])
  })

  test("asks what becomes of a call that may have run, and leaves out rows that make no sense", async () => {
    const tab = await open()
    await tab.page.getByRole("button", { name: STORY }).waitFor()
    const [createdAt, generationId] = [new Date().toISOString(), "other-0"]
    const times = { createdAt, updatedAt: createdAt }
    const call = { name: "pay", args: { euros: 5 }, effect: "once", attempt: 1, status: "parked" }
    const parts = [{ type: "tool-call", id: "c" }]
    const said = {
      role: "assistant",
      content: "",
      parts,
      actorId: "other",
      generationId,
      createdAt,
    }
    const generation = { agentName: "other", model: "none", status: "generating", readUpTo: 0 }
    await appendRows(stage.server.url, stage.id, [
      ["message", "broken", { role: "user", content: 7 }],
      ["generation", generationId, { ...generation, ...times }],
      ["message", "m", said],
      ["toolCall", "c", { ...call, ...times, generationId, messageId: "m" }],
    ])
    await tab.log.getByText("needs a decision").waitFor()
    await shoot(tab, "parked")
    await tab.page.getByRole("button", { name: "Mark as failed" }).click()
    await tab.log.getByText("decided", { exact: true }).waitFor()
    expect(await tab.page.getByRole("button", { name: "Run again" }).count()).toBe(0)
    expect(stage.complaints).toEqual([])
  })

  test("follows the answer only for those who are at its end", async () => {
    const tab = await open({ viewport: { width: 600, height: 360 } })
    await tab.send(STORY)
    await tab.growsTo(400)
    const distance = () =>
      tab.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight)
    await tab.page.waitForFunction(() => {
      const log = document.querySelector("[role=log]")
      return log.scrollHeight > log.clientHeight + 100
    })
    expect(await distance()).toBeLessThan(4)
    await tab.log.evaluate((log) => (log.scrollTop = 0))
    const jump = tab.page.getByRole("button", { name: "Jump to latest" })
    await jump.waitFor()
    await tab.growsTo(600)
    expect(await tab.log.evaluate((log) => log.scrollTop)).toBe(0)
    await jump.click()
    await jump.waitFor({ state: "detached" })
    await tab.growsTo(800)
    expect(await distance()).toBeLessThan(4)
    await tab.stopButton.click()
    await tab.log.getByText("Stopped.").waitFor()
    expect(stage.complaints).toEqual([])
  })

  test.each(["light", "dark"])("fits on a narrow screen, %s", async (colorScheme) => {
    const tab = await open({ viewport: { width: 360, height: 740 }, colorScheme })
    await tab.send(WEATHER)
    await tab.settles(1)
    await shoot(tab, `narrow-${colorScheme}`)
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(360)
    const background = await tab.page.evaluate(
      () => getComputedStyle(document.documentElement).backgroundColor,
    )
    const [red] = background.match(/\d+/g).map(Number)
    expect(red < 128).toBe(colorScheme === "dark")
    await agrees(tab)
  })
})
