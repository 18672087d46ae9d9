/** The view of any question, ours or a plug-in's, made from the declaration alone. */
import { useMemo } from "preact/hooks";
import { AnswerChart } from "../parts/answer-chart";
import { Answered } from "../parts/answered";
import { FormChoice } from "../parts/form-choice";
import { AnswerTable } from "../parts/table";
import { Prose } from "../parts/words";
import { NoAnswer, type Parameters, type Reply } from "../source/source";
import { useAnswer, useDeclaration, usePage, useRecording } from "../state/page";
import { partsOf } from "../state/part";

interface Props {
  readonly question: string;
}

export function QuestionView({ question }: Props) {
  const declared = useDeclaration(question);
  if (declared === undefined) throw new NoAnswer(`There is no question ${question}.`);
  return (
    <>
      <QuestionHead question={question} />
      <QuestionAnswer question={question} />
    </>
  );
}

/** The question, its forms, and its explanation, which can be opened. */
export function QuestionHead({ question }: Props) {
  const declared = useDeclaration(question);
  if (declared === undefined) return null;
  return (
    <header class="view-head">
      <h1>{declared.asks}</h1>
      {declared.added_by !== null && <p class="muted">Added by the {declared.added_by}.</p>}
      <div class="forms">
        <FormChoice declared={declared} />
        {declared.explanation !== "" && (
          <details class="explanation">
            <summary>What the numbers mean</summary>
            <Prose text={declared.explanation} />
          </details>
        )}
      </div>
    </header>
  );
}

/** The question's parameters from the address. */
export function useParameters(question: string): Parameters {
  const { address } = usePage();
  const declared = useDeclaration(question);
  return useMemo(() => {
    if (declared === undefined) return {};
    const taken = [...declared.parameters, ...partsOf(declared, address.state.get("by") ?? "")];
    const given = taken.flatMap((one): [string, string | number | boolean][] => {
      const text = address.state.get(one.name);
      if (text === undefined) return [];
      if (one.type === "bool") return [[one.name, text === "true"]];
      return [[one.name, one.type === "text" ? text : Number(text)]];
    });
    return Object.fromEntries(given);
  }, [address, declared]);
}

export function QuestionAnswer({ question }: Props) {
  const asked = useAnswer(question, useParameters(question), useAbout(question));
  return (
    <Answered asked={asked}>
      {(reply) => (
        <>
          <AnswerChart reply={reply} />
          <QuestionRows reply={reply} />
        </>
      )}
    </Answered>
  );
}

/** The recordings for a question about several: all, or the first and the chosen one, else the next. */
function useAbout(question: string): readonly string[] | undefined {
  const several = useDeclaration(question)?.recordings ?? "one";
  const ids = usePage().recordings.map((one) => one.id);
  const own = useRecording().id;
  if (several === "one") return undefined;
  return several === "several" ? ids : [ids[0], own === ids[0] ? ids[1] : own].flatMap((one) => one ?? []);
}

/** The table of an answer, recreated for an answer of another form. */
export function QuestionRows({ reply }: { readonly reply: Reply }) {
  return <AnswerTable key={reply.answer.columns.map((one) => one.name).join()} reply={reply} />;
}
