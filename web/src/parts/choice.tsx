/** A choice of a few words, all visible, one selected. */
interface Props<T extends string | null> {
  readonly name: string;
  readonly options: readonly T[];
  readonly chosen: T;
  readonly onChoose: (option: T) => void;
  readonly meaning?: string | undefined;
  /** The word for null. */
  readonly none?: string;
}

export function Choice<T extends string | null>({
  name,
  options,
  chosen,
  onChoose,
  meaning,
  none = "as fits",
}: Props<T>) {
  return (
    <fieldset class="segments" title={meaning}>
      <legend>{name}</legend>
      {options.map((option) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === chosen} onChange={() => onChoose(option)} />
          <span>{option ?? none}</span>
        </label>
      ))}
    </fieldset>
  );
}
