// What a person sees and does on the page.
import { squeeze } from "./rows.mjs"

const ANSWER_MS_MAX = 60_000

export class Tab {
  constructor(page) {
    this.page = page
    this.log = page.getByRole("log")
    this.message = page.getByRole("textbox", { name: "Message" })
    this.sendButton = page.getByRole("button", { name: "Send" })
    this.stopButton = page.getByRole("button", { name: "Stop" })
    this.connection = page.getByRole("status")
  }

  async send(text) {
    await this.message.fill(text)
    await this.sendButton.click()
  }

  /** Waits until the answer that is being given is this long, and still being given. */
  async growsTo(letters) {
    const isLong = (letters) => {
      const busy = document.querySelector("[role=log] .answer[aria-busy=true]")
      const texts = [...(busy?.querySelectorAll(":scope > .text") ?? [])]
      return texts.reduce((sum, text) => sum + text.textContent.length, 0) >= letters
    }
    await this.page.waitForFunction(isLong, letters, { timeout: ANSWER_MS_MAX })
  }

  /** Waits until this many answers are there, and nobody is at work any more. */
  async settles(answers) {
    const isSettled = (answers) => {
      const log = document.querySelector("[role=log]")
      const ended = log.querySelectorAll(".answer[aria-busy=false]")
      const open = log.querySelector(".answer[aria-busy=true], .said:not([data-state=read])")
      return ended.length >= answers && !open
    }
    await this.page.waitForFunction(isSettled, answers, { timeout: ANSWER_MS_MAX })
  }

  /** The conversation as lines, as `readLines` has them. */
  async lines() {
    const entries = await this.log.locator("article").evaluateAll((articles) =>
      articles.map((article) => {
        const isSaid = article.classList.contains("said")
        const own = isSaid ? ".bubble" : ":scope > .text > *"
        const texts = [...article.querySelectorAll(own)].map((it) => it.textContent)
        return `${isSaid ? "you" : "agent"}: ${texts.join(" ")}`
      }),
    )
    return entries.map(squeeze)
  }

  /** Notes down how long the conversation is, whenever it changes. */
  async watchLength() {
    await this.page.evaluate(() => {
      const log = document.querySelector("[role=log]")
      window.lengths = []
      const note = () => window.lengths.push(log.textContent.length)
      new MutationObserver(note).observe(log, {
        characterData: true,
        childList: true,
        subtree: true,
      })
    })
  }

  lengths() {
    return this.page.evaluate(() => window.lengths)
  }
}
