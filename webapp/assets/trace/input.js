// Mouse, touch and keys on the trace.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const axis = window.tilescopeAxis;
  const SPLIT = 'tilescope-trace-split'; // where a browser keeps the height of the rows
  const SCROLLED = 60; // pixels an arrow key scrolls

  // The line between rows and details: dragged or moved by arrow keys, reset by a double click.
  space.connectSplitter = (viewer) => {
    const line = document.getElementById('trace-splitter');
    if (!line) return;
    const set = (room) => {
      viewer.split = room && Math.max(120, Math.min(room, 2 * window.innerHeight));
      try { localStorage.setItem(SPLIT, String(viewer.split)); } catch (error) { /* private mode */ }
      viewer.arrange();
      viewer.draw();
      viewer.request();
    };
    try { viewer.split = Number(localStorage.getItem(SPLIT)) || 0; } catch (error) { /* private mode */ }
    let from = null;
    line.addEventListener('pointerdown', (event) => {
      line.setPointerCapture(event.pointerId);
      from = {y: event.clientY, height: viewer.scroller.clientHeight};
      event.preventDefault();
    });
    line.addEventListener('pointermove', (event) => { if (from) set(from.height + event.clientY - from.y); });
    for (const name of ['pointerup', 'pointercancel']) line.addEventListener(name, () => { from = null; });
    line.addEventListener('dblclick', () => set(0));
    line.addEventListener('keydown', (event) => {
      const by = {ArrowUp: -20, ArrowDown: 20}[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      set(viewer.scroller.clientHeight + by);
    });
  };

  // The menu of rows says what is chosen, and closes when something else is pressed.
  space.writeRows = (viewer) => {
    const shown = document.getElementById('trace-rows-shown');
    const menu = /** @type {HTMLDetailsElement} */ (document.getElementById('trace-rows'));
    if (!shown || !menu) return;
    const {ipus, tiles, view} = viewer.address;
    const parts = [
      ipus && 'IPUs ' + ipus, tiles && 'tiles ' + tiles, view !== 'flat' && viewer.address.merge === '1' && 'phases merged',
    ].filter(Boolean);
    const text = parts.length ? 'Rows: ' + parts.join(', ') : 'Rows';
    if (shown.textContent !== text) shown.textContent = text;
    if (menu.dataset.connected) return;
    menu.dataset.connected = 'yes';
    document.addEventListener('pointerdown', (event) => {
      if (!menu.contains(/** @type {Element} */ (event.target))) menu.open = false;
    });
    menu.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !menu.open) return;
      menu.open = false;
      shown.focus();
      event.stopPropagation();
    });
  };

  space.connectInput = (viewer) => {
    const {scroller, canvas} = viewer;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return {x: event.clientX - box.left, y: event.clientY - box.top};
    };

    axis.connectWheel(viewer, scroller, place);
    scroller.addEventListener('pointermove', (event) => { viewer.isSnapOff = event.altKey; }, {capture: true});
    axis.connectDrag(viewer, scroller, place, {
      isInside: (event, at) => !/** @type {Element} */ (event.target).closest('button') && at.x >= 0
        && event.clientX <= scroller.getBoundingClientRect().left + scroller.clientWidth,
      isRange: (event, at) => event.shiftKey || at.y < space.RULER,
      begin: () => scroller.scrollTop,
      panned: (scroll, by) => { scroller.scrollTop = scroll - by; },
    });
    scroller.addEventListener('dblclick', (event) => { if (place(event).x >= 0) viewer.focusSelection(); });
    scroller.addEventListener('scroll', () => { viewer.hover(null); viewer.draw(); viewer.request(); });

    const keys = {
      ...axis.motionKeys(viewer),
      // With a selected slice, arrows go to its neighbours, the one around it and the first inside it.
      ArrowLeft: () => viewer.selected ? viewer.step('previous') : viewer.pan(-0.2, true),
      ArrowRight: () => viewer.selected ? viewer.step('next') : viewer.pan(0.2, true),
      ArrowUp: () => { if (viewer.selected) viewer.step('up'); else scroller.scrollTop -= SCROLLED; },
      ArrowDown: () => { if (viewer.selected) viewer.step('down'); else scroller.scrollTop += SCROLLED; },
      Enter: () => viewer.focusSelection(),
      '/': () => document.getElementById('trace-find').focus(),
      Home: () => viewer.showAll(),
      Escape: () => viewer.clear(),
      n: () => viewer.findNext('next'),
      N: () => viewer.findNext('previous'),
      p: () => viewer.pinSelected(),
      m: () => viewer.keepMark(),
      t: () => viewer.askNote(),
      ']': () => viewer.followWait('forth'),
      '[': () => viewer.followWait('back'),
    };
    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !viewer.isShown() || !viewer.extent) return;
      // What lies above the page has these keys.
      if (document.querySelector('dialog[open]')) return;
      const target = /** @type {HTMLElement} */ (event.target);
      if (axis.isTyping(target)) {
        if (event.key === 'Enter' && target.id === 'trace-find') {
          event.preventDefault();
          // The box reports its text late, and the address follows.
          viewer.search(/** @type {HTMLInputElement} */ (target).value);
          viewer.findNext(event.shiftKey ? 'previous' : 'next');
        }
        if (event.key === 'Escape' && viewer.root.parentElement.contains(target)) target.blur();
        return;
      }
      // Elsewhere on the page, these keys are the page's own.
      const isPlace = event.key.startsWith('Arrow') || event.key === 'Enter';
      if (isPlace && target !== document.body && !viewer.root.contains(target)) return;
      if (event.key === 'Enter' && target.closest('button, a, summary')) return;
      axis.pressKey(keys, event);
    });
  };
})();
