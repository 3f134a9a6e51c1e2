import { createHash } from "node:crypto";

/** The bytes are no image. */
export class ImageBrokenError extends Error {
  override readonly name = "ImageBrokenError";
}

/** Stands for an image library: the size of the image, made up; one URL in ten leads to a broken one. */
export function decode(imageUrl: string): { width: number; height: number } {
  const bytes = createHash("sha256").update(imageUrl).digest();
  try {
    return readHeader(bytes);
  } catch (cause) {
    throw new ImageBrokenError("the image cannot be decoded", { cause });
  }
}

function readHeader(bytes: Buffer): { width: number; height: number } {
  if (bytes[0]! % 10 === 0) throw new RangeError(`end of data at byte ${bytes[1]}`);
  return { width: 200 + bytes.readUInt16BE(2), height: 200 + bytes.readUInt16BE(4) };
}
