/** Converts commands in our texts into links to the view with the same contents. */
export interface CommandLink {
  readonly question: string;
  readonly state: Readonly<Record<string, string>>;
}

/** The parts of a command that a view can show; output options are not among them. */
const PRINTED = new Set(["json", "csv", "markdown", "spaces", "plot", "width"]);

/** `stepscope kernels SRC --by stack --rank 3`; null if a text is not such a command. */
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
