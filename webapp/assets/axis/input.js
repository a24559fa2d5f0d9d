// Wheel, drag and keys of an axis.
(function () {
  'use strict';
  const space = window.tilescopeAxis = window.tilescopeAxis || /** @type {AxisSpace} */ ({});
  const CLICK_REACH = 4;
  const ZOOM = 1.35;
  const STEP = 0.2;

  space.isTyping = (target) => target.closest && target.closest(
    'input:not([type="radio"]):not([type="checkbox"]), textarea, select, [contenteditable="true"],'
    + '[role="slider"], [role="tab"], .ag-root',
  ) !== null;

  // `place` is where an event lies on the canvas.
  space.connectWheel = (view, element, place) => {
    element.addEventListener('wheel', (event) => {
      if (!view.extent) return;
      const {x} = place(event);
      if (x < 0) return;
      // Where there is nothing to pan or zoom, the wheel scrolls the page.
      const {extent} = view;
      const range = view.target();
      const closest = view.bounded(range.start, range.start);
      const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      const isWhole = range.start <= extent.start && range.end >= extent.end;
      const isClosest = range.end - range.start <= (closest.end - closest.start) * 1.001;
      if (isPan || event.deltaY > 0 ? isWhole : isClosest) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (isPan) {
        view.pan(sideways * unit / view.width);
      } else {
        view.zoomAt(Math.exp(Math.max(-240, Math.min(240, event.deltaY * unit)) / 480), x / view.width);
      }
    }, {passive: false});
  };

  // A drag pans, or marks a range where `isRange` says so; a press without motion is a click.
  space.connectDrag = (view, element, place, {isInside, isRange, begin, panned}) => {
    let drag = null;
    element.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !view.extent) return;
      const at = place(event);
      if (!isInside(event, at)) return;
      element.setPointerCapture(event.pointerId);
      drag = {
        ...at, ...view.range, isRange: isRange(event, at), moved: false,
        position: view.positionAt(at.x), extra: begin ? begin() : undefined,
      };
    });
    element.addEventListener('pointermove', (event) => {
      const at = place(event);
      if (!drag) {
        view.hover(at.x >= 0 ? at : null);
        return;
      }
      if (Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > CLICK_REACH) drag.moved = true;
      if (!drag.moved) return;
      view.hover(null);
      if (drag.isRange) {
        view.mark(drag.position, view.positionAt(Math.max(0, Math.min(at.x, view.width))));
      } else {
        const by = (drag.x - at.x) / view.width * (drag.end - drag.start);
        view.moveTo(drag.start + by, drag.end + by);
        if (panned) panned(drag.extra, at.y - drag.y);
      }
    });
    element.addEventListener('pointerup', (event) => {
      const was = drag;
      drag = null;
      if (was && !was.moved) view.click(place(event), event);
      else if (was && was.isRange) view.changed();
    });
    element.addEventListener('pointercancel', () => { drag = null; });
    element.addEventListener('pointerleave', () => view.hover(null));
  };

  space.motionKeys = (view) => ({
    w: () => view.zoomAt(1 / ZOOM, view.pointer(), true),
    s: () => view.zoomAt(ZOOM, view.pointer(), true),
    a: () => view.pan(-STEP, true),
    d: () => view.pan(STEP, true),
    '+': () => view.zoomAt(1 / ZOOM, 0.5, true),
    '-': () => view.zoomAt(ZOOM, 0.5, true),
    f: () => view.focusSelection(),
    0: () => view.showAll(),
  });

  // Runs the action of a key, if it has one; letters work with the caps lock on.
  space.pressKey = (keys, event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const act = keys[event.key] || (event.shiftKey ? null : keys[event.key.toLowerCase()]);
    if (!act) return false;
    event.preventDefault();
    act(event);
    return true;
  };
})();
