/** The forms of a question: what a row is about, and further parameters if a server can answer. */
import type { Declaration, DeclaredParameter } from "../source/source";
import { useChange, usePage } from "../state/page";
import { partsOf } from "../state/part";
import { Choice } from "./choice";

export function FormChoice({ declared }: { readonly declared: Declaration }) {
  const { source, address } = usePage();
  const offered = declared.parameters.filter((one) => source.kind === "server" || one.form);
  const parts = source.kind === "server" ? partsOf(declared, address.state.get("by") ?? "") : [];
  if (offered.length + parts.length === 0) return null;
  return (
    <>
      {offered.map((one) =>
        one.choices.length > 0 ? (
          <Choices key={one.name} parameter={one} />
        ) : (
          <Typed key={one.name} parameter={one} />
        ),
      )}
      {parts.length > 0 && (
        <details class="parts" open={parts.some((one) => address.state.has(one.name))}>
          <summary>Part of the recording</summary>
          <div>
            {parts.map((one) => (
              <Typed key={one.name} parameter={one} />
            ))}
          </div>
        </details>
      )}
    </>
  );
}

function Choices({ parameter }: { readonly parameter: DeclaredParameter }) {
  const { address } = usePage();
  const change = useChange();
  const value = address.state.get(parameter.name) ?? parameter.default;
  return (
    <Choice
      name={parameter.name.replaceAll("_", " ")}
      meaning={parameter.meaning}
      options={[...(parameter.default === null ? [null] : []), ...parameter.choices]}
      chosen={value as string | null}
      onChoose={(choice) =>
        change({
          [parameter.name]: choice === parameter.default ? null : choice,
          columns: null,
          sort: null,
        })
      }
    />
  );
}

function Typed({ parameter }: { readonly parameter: DeclaredParameter }) {
  const { address } = usePage();
  const change = useChange();
  const value = address.state.get(parameter.name) ?? "";
  if (parameter.type === "bool") {
    return (
      <label title={parameter.meaning}>
        <input
          type="checkbox"
          checked={(value || String(parameter.default)) === "true"}
          onChange={(event) => change({ [parameter.name]: String(event.currentTarget.checked) })}
        />{" "}
        {parameter.name.replaceAll("_", " ")}
      </label>
    );
  }
  return (
    <label class="typed" title={parameter.meaning}>
      {parameter.name.replaceAll("_", " ")}{" "}
      <input
        type="text"
        inputMode={parameter.type === "text" ? "text" : "numeric"}
        value={value}
        placeholder={parameter.default === null ? "" : String(parameter.default)}
        onChange={(event) => change({ [parameter.name]: event.currentTarget.value })}
      />
    </label>
  );
}
