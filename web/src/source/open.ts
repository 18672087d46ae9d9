/** Which source this page has: a data block in it means report, none means server. */
import { EmbeddedSource } from "./embedded";
import { ServerSource } from "./server";
import type { Source } from "./source";

export function openSource(page: Document): Source {
  const block = page.getElementById("stepscope-data");
  return block === null ? new ServerSource() : new EmbeddedSource(block.textContent);
}
