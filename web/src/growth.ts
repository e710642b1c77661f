// Texts that grow: the chunks of a message, as pieces that are appended to.
//
// A live query that joins the chunks of a text would build the whole text again for every token.
// Here a token is added to the piece it belongs to, and whoever shows that piece is handed the
// token alone.
import type { Table } from "./admission"
import type { Chunk } from "./rows.gen"

export type PieceKind = "text" | "thinking" | "call"

/** One run of chunks of a kind. Its text only grows; what must shrink becomes a new piece. */
export class Piece {
  text = ""
  readonly #readers = new Set<(more: string) => void>()

  constructor(
    readonly kind: PieceKind,
    /** The tool, if it is a call. */
    readonly name = "",
  ) {}

  append(more: string): void {
    this.text += more
    for (const reader of this.#readers) reader(more)
  }

  /** Calls `reader` with whatever is appended from now on. */
  follow(reader: (more: string) => void): () => void {
    this.#readers.add(reader)
    return () => this.#readers.delete(reader)
  }
}

interface Growing {
  chunks: Chunk[]
  /** A new array whenever a piece begins, and the same one while a piece grows. */
  pieces: readonly Piece[]
  watchers: Set<() => void>
}

const NOTHING: readonly Piece[] = []

export class Growth {
  readonly #messages = new Map<string, Growing>()

  constructor(chunks: Table<Chunk>) {
    const take = (changes: { type: string; value: Chunk }[]) => {
      const shrunk = new Set<string>()
      for (const { type, value } of changes) {
        if (!value.messageId) continue
        if (type === "delete") {
          this.#remove(value)
          shrunk.add(value.messageId)
        } else {
          this.#add(value)
        }
      }
      shrunk.forEach((messageId) => this.#rebuild(messageId))
    }
    chunks.subscribeChanges(take, { includeInitialState: true })
  }

  /** The pieces of a message as it grows. */
  pieces(messageId: string): readonly Piece[] {
    return this.#messages.get(messageId)?.pieces ?? NOTHING
  }

  /** Calls `watcher` whenever a piece begins or all begins anew. */
  watch(messageId: string, watcher: () => void): () => void {
    const { watchers } = this.#of(messageId)
    watchers.add(watcher)
    return () => watchers.delete(watcher)
  }

  #of(messageId: string): Growing {
    let growing = this.#messages.get(messageId)
    if (!growing) {
      growing = { chunks: [], pieces: NOTHING, watchers: new Set() }
      this.#messages.set(messageId, growing)
    }
    return growing
  }

  #add(chunk: Chunk): void {
    const growing = this.#of(chunk.messageId ?? "")
    const last = growing.chunks.at(-1)
    if (!last || chunk.index > last.index) {
      growing.chunks.push(chunk)
      const begun = extend(growing.pieces, chunk)
      if (begun === growing.pieces) return
      growing.pieces = begun
      growing.watchers.forEach((watcher) => watcher())
    } else if (!growing.chunks.some((other) => other.index === chunk.index)) {
      growing.chunks.push(chunk)
      growing.chunks.sort((one, other) => one.index - other.index)
      this.#rebuild(chunk.messageId ?? "")
    }
  }

  #remove(chunk: Chunk): void {
    const growing = this.#of(chunk.messageId ?? "")
    growing.chunks = growing.chunks.filter((other) => other.index !== chunk.index)
  }

  #rebuild(messageId: string): void {
    const growing = this.#of(messageId)
    growing.pieces = growing.chunks.reduce(extend, [...NOTHING])
    growing.watchers.forEach((watcher) => watcher())
  }
}

/** Adds a chunk; the same array if its piece was there. */
function extend(pieces: readonly Piece[], { type, content }: Chunk): readonly Piece[] {
  const last = pieces.at(-1)
  switch (type) {
    case "text":
    case "thinking": {
      if (last?.kind === type) {
        last.append(content)
        return pieces
      }
      const piece = new Piece(type)
      piece.append(content)
      return [...pieces, piece]
    }
    case "tool-call-start":
      return [...pieces, new Piece("call", content)]
    case "tool-call-args":
      if (last?.kind === "call") last.append(content)
      return pieces
    default:
      return pieces
  }
}
