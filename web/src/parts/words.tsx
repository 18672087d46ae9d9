/** Text of ours: words between backquotes are code, and names of questions link to their views. */
import type { ComponentChildren } from "preact";
import { held } from "../format/units";
import { commandLink } from "../state/command";
import { useLink, usePage } from "../state/page";

export function Words({ text }: { readonly text: string }) {
  const { declarations } = usePage();
  const link = useLink();
  const known = new Set(declarations.map((one) => one.name));
  return (
    <>
      {text.split(/(`[^`]*`)/).map((part) => {
        if (!part.startsWith("`") || part.length < 2) return held(part);
        const code = part.slice(1, -1);
        const asked = commandLink(code);
        if (asked !== null && known.has(asked.question)) {
          return (
            <a key={part} href={link(asked.question, asked.state)}>
              <code>{code}</code>
            </a>
          );
        }
        return <code key={part}>{code}</code>;
      })}
    </>
  );
}

/** The same inside a link, where code has no link of its own. */
export function Plain({ text }: { readonly text: string }) {
  return (
    <>
      {text
        .split(/`([^`]*)`/)
        .map((part, place) => (place % 2 === 1 ? <code key={place}>{part}</code> : held(part)))}
    </>
  );
}

/** Paragraphs and lists of a question's explanation, which is very simple Markdown. */
export function Prose({ text }: { readonly text: string }) {
  return (
    <>
      {text.split(/\n\s*\n/).map((paragraph): ComponentChildren => {
        const plain = paragraph.replace(/\*\*([^*]+)\*\*/g, "$1").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");
        if (!/^\s*\* /.test(plain))
          return (
            <p key={paragraph}>
              <Words text={plain.replace(/\s+/g, " ")} />
            </p>
          );
        const items = plain.split(/^\s*\* /m).slice(1);
        return (
          <ul key={paragraph}>
            {items.map((item) => (
              <li key={item}>
                <Words text={item.replace(/\s+/g, " ")} />
              </li>
            ))}
          </ul>
        );
      })}
    </>
  );
}
