/** Chooses the page's source: a report if there is a data block, else a server. */
import { EmbeddedSource } from "./embedded";
import { ServerSource } from "./server";
import type { Source } from "./source";

export function openSource(page: Document): Source {
  const block = page.getElementById("stepscope-data");
  return block === null ? new ServerSource() : new EmbeddedSource(block.textContent);
}
