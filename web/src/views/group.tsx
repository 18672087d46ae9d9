/** A view of several questions without views of their own: one at a time, with tabs. */
import type { ComponentChildren } from "preact";
import { useLink, usePage, useRecording } from "../state/page";
import { QuestionAnswer, QuestionHead } from "./generic";
import { questionsOf, type View } from "./list";

interface Props {
  readonly view: View;
  /** The heading above all. */
  readonly first?: ComponentChildren;
}

export function GroupView({ view, first }: Props) {
  const { address, declarations, recordings } = usePage();
  const severalRecordings = recordings.length > 1;
  const link = useLink();
  const { holds } = useRecording();
  const known = questionsOf(view, declarations);
  const chosen =
    known.find((one) => one.name === address.state.get("question")) ??
    known.find(({ name }) => holds.includes(view.made?.[name] ?? "")) ??
    known.find((one) => view.made !== undefined && severalRecordings && one.recordings === "several") ??
    known[0];
  if (chosen === undefined) return null;
  return (
    <>
      {first}
      {known.length > 1 && (
        <nav class="tabs" aria-label={`Questions of ${view.title}`}>
          {known.map((one) => (
            <a
              key={one.name}
              href={link(view.id, { question: one.name })}
              aria-current={one.name === chosen.name ? "page" : undefined}
            >
              {one.name}
            </a>
          ))}
        </nav>
      )}
      <QuestionHead key={chosen.name} question={chosen.name} />
      <QuestionAnswer key={`${chosen.name} answer`} question={chosen.name} />
    </>
  );
}
