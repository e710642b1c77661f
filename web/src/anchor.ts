// What the reader is looking at, so that it can be kept where it is when something comes before it.

/** The parts of a conversation that stay the same when it grows. */
const PARTS = "article > *"

interface Mark {
  part: Element
  /** From the top of what is scrolled, so that scrolling changes nothing. */
  top: number
}

export class Anchor {
  #marks: Mark[] = []

  /** Notes what is to be seen. */
  drop(box: HTMLElement): void {
    const parts = [...box.querySelectorAll(PARTS)]
    const { top, bottom } = box.getBoundingClientRect()
    // They lie below one another: the first one that is to be seen is found by halves.
    let [low, high] = [0, parts.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((parts[middle] as Element).getBoundingClientRect().bottom <= top) low = middle + 1
      else high = middle
    }
    const seen: Mark[] = []
    for (const part of parts.slice(low)) {
      const place = part.getBoundingClientRect()
      if (place.top >= bottom) break
      seen.push({ part, top: place.top - top + box.scrollTop })
    }
    // One that begins in sight says more than one that may have grown out of sight.
    const inSight = seen.findIndex((mark) => mark.top >= box.scrollTop)
    this.#marks = inSight > 0 ? [...seen.slice(inSight), ...seen.slice(0, inSight)] : seen
  }

  /** Scrolls so that what was noted is where it was. */
  hold(box: HTMLElement): void {
    const mark = this.#marks.find(({ part }) => box.contains(part))
    if (!mark) return
    const top = mark.part.getBoundingClientRect().top - box.getBoundingClientRect().top
    const moved = top + box.scrollTop - mark.top
    if (moved !== 0) box.scrollTop += moved
  }
}
