/** How wide a place of the page is, and stays told when that changes. */
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A place's reference and its width in pixels; 0 until it is drawn. */
export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const follow = new ResizeObserver(() => setWidth(box.clientWidth));
    follow.observe(box);
    setWidth(box.clientWidth);
    return () => follow.disconnect();
  }, []);
  return [place, width];
}
