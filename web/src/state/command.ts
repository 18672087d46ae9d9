/** Commands that texts of ours name, as addresses of the view that shows the same. */
export interface CommandLink {
  readonly question: string;
  readonly state: Readonly<Record<string, string>>;
}

/** What a view can show of a command: how its answer is printed is not of it. */
const PRINTED = new Set(["json", "csv", "markdown", "spaces", "plot", "width"]);

/** `stepscope kernels SRC --by stack --rank 3`; null where a text is no such command. */
export function commandLink(text: string): CommandLink | null {
  const question = /^stepscope ([a-z-]+)/.exec(text)?.[1];
  if (question === undefined) return null;
  const state: Record<string, string> = {};
  for (const [, name = "", value] of text.matchAll(/ --([a-z-]+)(?:[ =]([^\s-]\S*))?/g)) {
    if (!PRINTED.has(name))
      state[name.replaceAll("-", "_")] = (value ?? "true").replace(/^(['"])(.*)\1$/, "$2");
  }
  return { question, state };
}
