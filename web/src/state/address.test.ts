import { describe, expect, it } from "vitest";
import { addressText, changed, parseAddress, toView } from "./address";

describe("the address", () => {
  it("starts on the overview", () => {
    expect(parseAddress("").view).toBe("overview");
  });

  it("gives back what was put into it, whatever its signs", () => {
    const address = { view: "a/b ?", state: new Map([["find", "void f<int>(&) #1 % \u{1F600}"]]) };
    expect(parseAddress(addressText(address))).toEqual(address);
  });

  it("loses an entry that is emptied, and keeps the others", () => {
    const address = parseAddress("#/kernels?by=stack&find=gemm");
    expect(addressText(changed(address, { find: "" }))).toBe("#/kernels?by=stack");
  });

  it("keeps the recording and nothing else on the way to another view", () => {
    const address = parseAddress("#/kernels?recording=2&sort=name:asc");
    expect(addressText(toView(address, "steps"))).toBe("#/steps?recording=2");
  });

  it("takes what is no address for one", () => {
    expect(parseAddress("#/%").view).toBe("%");
  });
});
