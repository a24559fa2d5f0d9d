// Mouse, touch and keys on the trace.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const CLICK_REACH = 4;

  function isTyping(target) {
    return target.closest && target.closest(
      'input, textarea, select, [contenteditable="true"], [role="slider"], [role="tab"], [role="radio"], .ag-root',
    ) !== null;
  }

  space.connectInput = (viewer) => {
    const {scroller, canvas} = viewer;
    let drag = null;

    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };

    scroller.addEventListener('wheel', (event) => {
      if (!viewer.extent) return;
      const {x} = place(event);
      if (x < 0) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        viewer.pan(sideways * unit / viewer.width);
      } else {
        viewer.zoomAt(Math.exp(Math.max(-240, Math.min(240, event.deltaY * unit)) / 480), x / viewer.width);
      }
    }, {passive: false});

    scroller.addEventListener('pointerdown', (event) => {
      const target = /** @type {Element} */ (event.target);
      if (event.button !== 0 || !viewer.extent || target.closest('button')) return;
      const at = place(event);
      if (at.x < 0 || event.clientX > scroller.getBoundingClientRect().left + scroller.clientWidth) return;
      scroller.setPointerCapture(event.pointerId);
      const isRange = event.shiftKey || at.y < space.RULER;
      drag = {
        ...at, ...viewer.range, scroll: scroller.scrollTop, isRange, moved: false,
        cycle: viewer.cycleAt(at.x),
      };
    });

    scroller.addEventListener('pointermove', (event) => {
      const at = place(event);
      if (!drag) {
        viewer.hover(at.x >= 0 ? at : null);
        return;
      }
      if (Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > CLICK_REACH) drag.moved = true;
      if (!drag.moved) return;
      viewer.hover(null);
      if (drag.isRange) {
        viewer.mark(drag.cycle, viewer.cycleAt(Math.max(0, Math.min(at.x, viewer.width))));
      } else {
        const by = (drag.x - at.x) / viewer.width * (drag.end - drag.start);
        viewer.moveTo(drag.start + by, drag.end + by);
        scroller.scrollTop = drag.scroll - (at.y - drag.y);
      }
    });

    scroller.addEventListener('pointerup', (event) => {
      const was = drag;
      drag = null;
      if (was && !was.moved) viewer.click(place(event));
      else if (was && was.isRange) viewer.changed();
    });
    scroller.addEventListener('pointercancel', () => { drag = null; });
    scroller.addEventListener('pointerleave', () => viewer.hover(null));
    scroller.addEventListener('dblclick', (event) => { if (place(event).x >= 0) viewer.focusSelection(); });
    scroller.addEventListener('scroll', () => { viewer.hover(null); viewer.draw(); viewer.request(); });

    const keys = {
      w: () => viewer.zoomAt(1 / 1.35, viewer.pointer(), true),
      s: () => viewer.zoomAt(1.35, viewer.pointer(), true),
      a: () => viewer.pan(-0.2, true),
      d: () => viewer.pan(0.2, true),
      '+': () => viewer.zoomAt(1 / 1.35, 0.5, true),
      '-': () => viewer.zoomAt(1.35, 0.5, true),
      ArrowLeft: () => viewer.pan(-0.2, true),
      ArrowRight: () => viewer.pan(0.2, true),
      ArrowUp: () => { scroller.scrollTop -= 3 * space.LANE; },
      ArrowDown: () => { scroller.scrollTop += 3 * space.LANE; },
      f: () => viewer.focusSelection(),
      0: () => viewer.showAll(),
      Home: () => viewer.showAll(),
      Escape: () => viewer.clear(),
      n: () => viewer.findNext('next'),
      N: () => viewer.findNext('previous'),
    };
    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !viewer.isShown() || !viewer.extent) return;
      const target = /** @type {HTMLElement} */ (event.target);
      if (isTyping(target)) {
        if (event.key === 'Enter' && target.id === 'trace-find') {
          event.preventDefault();
          // The box reports its text late, and the address follows.
          viewer.search(/** @type {HTMLInputElement} */ (target).value);
          viewer.findNext(event.shiftKey ? 'previous' : 'next');
        }
        if (event.key === 'Escape' && viewer.root.parentElement.contains(target)) target.blur();
        return;
      }
      const isArrow = event.key.startsWith('Arrow');
      if (isArrow && target !== document.body && !viewer.root.contains(target)) return;
      const act = keys[event.key] || (event.shiftKey ? null : keys[event.key.toLowerCase()]);
      if (!act) return;
      event.preventDefault();
      act();
    });
  };
})();
