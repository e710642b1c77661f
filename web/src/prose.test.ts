import { describe, expect, it } from "vitest"
import { Prose } from "./prose"

function write() {
  const blocks: { kind: string; text: string }[] = []
  const begin = (kind: string) => {
    const block = { kind, text: "" }
    blocks.push(block)
    return { appendData: (text: string) => void (block.text += text) }
  }
  const prose = new Prose({ begin, clear: () => void (blocks.length = 0) })
  return { prose, shown: () => blocks.map(({ kind, text }) => `${kind}|${text}`) }
}

describe("prose", () => {
  const rows: [text: string, blocks: string[]][] = [
    ["Once upon\na time", ["p|Once upon\na time"]],
    [
      "So:\n\n```rust\nlet a = 1;\n\nlet b = 2;\n```\n\nDone.\n",
      ["p|So:", "pre|let a = 1;\n\nlet b = 2;", "p|Done."],
    ],
    ["a ``` b `c`", ["p|a ``` b `c`"]],
    ["``almost\n`", ["p|``almost\n`"]],
    ["```\nopen", ["pre|open"]],
    ["x\n```", ["p|x"]],
    ["\n\nlate", ["p|late"]],
    ["one\ntwo\n\n\nthree\n\n", ["p|one\ntwo", "p|three"]],
    ["", []],
  ]

  it.each(rows)("finds the code in %j", (text, blocks) => {
    const { prose, shown } = write()
    prose.become(text)
    prose.finish()
    expect(shown()).toEqual(blocks)
  })

  it.each(rows)("finds it letter by letter, too: %j", (text, blocks) => {
    const { prose, shown } = write()
    for (const letter of text) prose.append(letter)
    // The finished message is the same text; nothing may move.
    prose.become(text)
    prose.finish()
    expect(shown()).toEqual(blocks)
  })

  it("begins anew when the text is another", () => {
    const { prose, shown } = write()
    prose.append("Once upon")
    prose.become("Twice")
    expect(shown()).toEqual(["p|Twice"])
  })
})
