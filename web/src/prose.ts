// Writes text into the page as it comes: paragraphs, and what stands between ``` as code.
//
// Text is only ever appended, so a token costs what it is long and nothing that is already there
// moves. Everything is a text node; there is no markup to get wrong.

const FENCE = "```"
/** What begins a line and may yet turn out to be a fence. */
const MAYBE_FENCE = /^`{0,2}$/

/** Where the blocks go. */
export interface Paper {
  begin(block: "p" | "pre"): { appendData(text: string): void }
  clear(): void
}

/** An element as paper. */
export function paperOf(root: HTMLElement): Paper {
  const begin = (block: "p" | "pre") => {
    const text = document.createTextNode("")
    const element = document.createElement(block)
    element.append(text)
    root.append(element)
    return text
  }
  return { begin, clear: () => root.replaceChildren() }
}

export class Prose {
  /** All that was written, as it came. */
  text = ""
  readonly #paper: Paper
  /** Where the next text goes; none after a fence, until there is something to say. */
  #node: ReturnType<Paper["begin"]> | undefined
  /** Ends of lines that are only shown once something follows them in their block. */
  #gap = ""
  #isCode = false
  /** The line so far, while it may be a fence; none once it is known to be text. */
  #line: string | undefined = ""

  constructor(paper: Paper) {
    this.#paper = paper
  }

  /** Makes the text this one. What is there already stays, if it is how the text begins. */
  become(text: string): void {
    if (!text.startsWith(this.text)) this.clear()
    this.append(text.slice(this.text.length))
  }

  append(more: string): void {
    this.text += more
    let rest = more
    while (rest) {
      const end = rest.indexOf("\n") + 1
      const piece = end ? rest.slice(0, end) : rest
      rest = rest.slice(piece.length)
      this.#take(piece)
    }
  }

  /** Nothing follows: what was held back is no fence. */
  finish(): void {
    if (!this.#line) return
    if (this.#line.startsWith(FENCE)) this.#turn()
    else this.#write(this.#line)
    this.#line = undefined
  }

  clear(): void {
    this.#paper.clear()
    this.text = ""
    this.#line = ""
    this.#isCode = false
    this.#node = undefined
    this.#gap = ""
  }

  /** Takes a piece of one line, which may be its end. */
  #take(piece: string): void {
    const isEnd = piece.endsWith("\n")
    if (this.#line === undefined) {
      this.#write(piece)
    } else {
      this.#line += piece
      const isFence = this.#line.startsWith(FENCE)
      if (isFence && isEnd) this.#turn()
      if (!isFence && !MAYBE_FENCE.test(this.#line)) {
        this.#write(this.#line)
        this.#line = undefined
      }
    }
    if (isEnd) this.#line = ""
  }

  #turn(): void {
    this.#isCode = !this.#isCode
    this.#node = undefined
    this.#gap = ""
  }

  #write(text: string): void {
    // A paragraph of its own is laid out alone, however long the rest is.
    if (this.#gap.length > 1 && !this.#isCode && text !== "\n") this.#node = undefined
    const whole = this.#node ? this.#gap + text : text.replace(/^\n+/, "")
    const shown = whole.replace(/\n+$/, "")
    this.#gap = whole.slice(shown.length)
    if (!shown) return
    this.#node ??= this.#paper.begin(this.#isCode ? "pre" : "p")
    this.#node.appendData(shown)
  }
}
