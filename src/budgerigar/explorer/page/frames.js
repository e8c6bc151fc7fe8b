// A long answer as the server sends it (explorer/streaming.py): frames in one response, each
// u32 kind | u32 length (little-endian) | bytes.

export const FRAMES = "application/x-budgerigar-frames";
export const PROGRESS = 0;
export const PART = 1;
export const ANSWER = 2;

/** Bytes that came but are not read yet. */
class Inbox {
  constructor(reader) {
    Object.assign(this, { reader, parts: [], size: 0 });
  }

  /** The next `count` bytes, as soon as they are there; null: the response ended before. */
  async take(count) {
    while (this.size < count) {
      const { done, value } = await this.reader.read();
      if (done) return null;
      this.parts.push(value);
      this.size += value.length;
    }
    const found = new Uint8Array(count);
    let at = 0;
    while (at < count) {
      const [first] = this.parts;
      const part = first.subarray(0, count - at);
      found.set(part, at);
      at += part.length;
      if (part.length === first.length) this.parts.shift();
      else this.parts[0] = first.subarray(part.length);
    }
    this.size -= count;
    return found;
  }
}

/** {kind, content: ArrayBuffer} of the last frame; heard(kind, content) is called for each before it. */
export async function lastFrame(response, heard) {
  const inbox = new Inbox(response.body.getReader());
  for (;;) {
    const head = await inbox.take(8);
    if (head === null) throw new TypeError("the answer broke off");
    const sizes = new DataView(head.buffer);
    const kind = sizes.getUint32(0, true);
    const content = await inbox.take(sizes.getUint32(4, true));
    if (content === null) throw new TypeError("the answer broke off");
    if (kind >= ANSWER) return { kind, content: content.buffer };
    heard(kind, content.buffer);
  }
}
