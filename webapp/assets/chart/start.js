// The charts of the pages Memory and Liveness: what they ask, what a click selects, their callbacks.
(function () {
  'use strict';
  const space = window.tilescopeChart = window.tilescopeChart || /** @type {ChartSpace} */ ({});
  const axis = window.tilescopeAxis;
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const charts = clientside.charts = clientside.charts || {};
  const MOST_MARKS = 64;
  const HIDDEN = {display: 'none'};

  // Numbers of a list such as "0, 5, 100-103" as ranges, at most `MOST_MARKS`.
  space.ranges = (text) => {
    /** @type {[number, number][]} */
    const found = [];
    for (const part of (text || '').split(/[,;]/)) {
      const [, low, high] = /^\s*(\d{1,9})(?:-(\d{1,9}))?\s*$/.exec(part) || [];
      if (low !== undefined) found.push([Number(low), Math.max(Number(low), Number(high ?? low))]);
    }
    return found.slice(0, MOST_MARKS);
  };

  // Sorted numbers as such a list.
  space.listOf = (numbers) => {
    const parts = [];
    for (const number of numbers) {
      const last = parts[parts.length - 1];
      if (last && last[1] === number - 1) last[1] = number;
      else parts.push([number, number]);
    }
    return parts.map(([low, high]) => low === high ? String(low) : low + '-' + high).join(',');
  };

  const clean = (query) => Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));

  const tiles = {
    noun: 'tile', label: 'Memory by tile', fileName: 'tile-memory', axes: 'Across: tiles; up: bytes',
    path: (view) => 'memory/' + encodeURIComponent(view.report),
    query: (view) => clean({
      with: view.with, breakdown: view.breakdown, gaps: view.gaps === '1' ? 'true' : '',
      order: view.order === 'hardware' ? 'hardware' : '',
      var: view.breakdown === 'variables' ? view.var : '',
    }),
    // In hardware order, where every tile lies: asked once a report.
    async viewChanged(plot) {
      const path = plot.view.order === 'hardware' ? plot.path : '';
      if (plot.orderOf === path) return;
      plot.orderOf = path;
      plot.placeOf = null;
      if (!path) return;
      try {
        const answer = await space.ask(path + '/order/hardware');
        const order = new Int32Array(await answer.arrayBuffer());
        if (plot.orderOf !== path) return;
        plot.placeOf = new Int32Array(order.length);
        order.forEach((tile, place) => { plot.placeOf[tile] = place; });
        plot.order = order;
        plot.draw();
      } catch (error) { /* the chart itself reports it */ }
    },
    selected(plot) {
      const ranges = space.ranges(plot.view.tiles);
      if (plot.view.order !== 'hardware') return ranges;
      if (!plot.placeOf) return [];
      return ranges.flatMap(([low, high]) => {
        const found = [];
        for (let tile = low; tile <= high && found.length < MOST_MARKS; tile += 1) {
          if (tile < plot.placeOf.length) found.push([plot.placeOf[tile], plot.placeOf[tile]]);
        }
        return found;
      });
    },
    more: (plot, data, place, items) => {
      const item = items.find((one) => one !== undefined);
      const size = data.tiles_per_ipu;
      return size && data.n_places > size ? ' · IPU ' + Math.floor(item / size) : '';
    },
    pick(found) {
      if (!found) { window.tilescope.changeView({tiles: ''}, false); return; }
      const before = new URLSearchParams(location.search).get('tiles') || '';
      const tile = String(found.item);
      if (found.isMore && before.split(',').includes(tile)) return;
      window.tilescope.changeView({tiles: found.isMore && before ? before + ',' + tile : tile}, true);
    },
    pickRange(plot, {start, end}) {
      const places = Array.from({length: end - start + 1}, (_, i) => start + i);
      const chosen = plot.placeOf ? places.map((place) => plot.order[place]).sort((a, b) => a - b) : places;
      window.tilescope.changeView({tiles: space.listOf(chosen)}, true);
    },
  };

  const steps = {
    noun: 'step', label: 'Live memory by step', fileName: 'liveness', axes: 'Across: steps; up: bytes live',
    path: (view) => 'liveness/' + encodeURIComponent(view.report),
    query: (view) => clean({
      with: view.with, always: view.always === '1' ? 'true' : '', steps: view.steps, var: view.var,
      purpose: view.purpose === '1' ? 'true' : '',
      source: /^\s*\d+\s*$/.test(view.tile || '') ? 'tile:' + view.tile.trim()
        : view.source === 'all' ? '' : view.source,
    }),
    selected(plot, data) {
      return (plot.view.step || '').split(',').flatMap((word) => {
        const [, side, step] = /^(c?)(\d{1,9})$/.exec(word) || [];
        const own = data.sides[side ? 1 : 0];
        if (step === undefined || !own) return [];
        const at = data.sides.length > 1 ? space.nearest(own.item, Number(step)) : -1;
        const place = at < 0 ? Number(step) : own.place[at];
        return [[place, place]];
      });
    },
    // Kind and name of a step: they are long, so they are asked for when they are looked at.
    more(plot, data, place, items) {
      const side = items.findIndex((item) => item !== undefined);
      if (side < 0) return '';
      const report = side ? plot.view.with : plot.view.report;
      const key = report + '/step/' + items[side];
      const known = plot.names.get(key);
      if (known !== undefined) return known ? ' · ' + known : '';
      plot.names.set(key, '');
      space.ask('liveness/' + key).then(window.tilescope_text.read).then(({kind, name}) => {
        plot.names.set(key, (kind + ' ' + name).trim());
        if (plot.point && plot.point.place === place) plot.hover(plot.point.at);
        else if (plot.cursor === place) plot.tell(place);
      }).catch(() => plot.names.delete(key));
      return '';
    },
    // Shift adds a step, which becomes a column of the tables below, or takes it away.
    pick(found) {
      if (!found) { window.tilescope.changeView({step: ''}, false); return; }
      const step = (found.side ? 'c' : '') + found.item;
      const before = (new URLSearchParams(location.search).get('step') || '').split(',').filter(Boolean);
      const others = before.filter((one) => one !== step);
      const chosen = !found.isMore ? [step] : others.length < before.length ? others : [...others, step];
      window.tilescope.changeView({step: chosen.join(',')}, true);
    },
  };

  const lives = (root, side) => new space.LivesPlot(root, {
    side, noun: 'step', label: 'Memory of a tile over time' + (side ? ', candidate' : ''),
    fileName: 'memory-map' + (side ? '-candidate' : ''), axes: 'Across: steps; up: addresses in the tile',
    pick: (name) => window.tilescope.changeView({var: name}, Boolean(name)),
  });

  // The plots of a page by kind; those of one graph are visible.
  const plots = {};
  const KINDS = {
    'memory-tiles': (root) => new space.SeriesPlot(root, tiles),
    'memory-lives': (root) => lives(root, 0),
    'memory-lives-candidate': (root) => lives(root, 1),
    'memory-map': (root) => new space.MapPlot(root, tiles),
    'liveness-steps': (root) => new space.SeriesPlot(root, steps),
  };
  space.kinds = KINDS;

  // A page is mounted on its first visit, perhaps after its first view has arrived.
  function whenPresent(id, act, patience = 600) {
    const element = document.getElementById(id);
    if (element) act(element);
    else if (patience) requestAnimationFrame(() => whenPresent(id, act, patience - 1));
  }

  const wanted = {};
  function show(page, kind, view) {
    // The page itself says that a report is unknown.
    if (!view || !window.tilescope.isKnown(view.report)) return;
    wanted[page] = {kind, view};
    whenPresent(page + '-figure', (root) => {
      if (wanted[page].view !== view) return;
      // Memory over time of two reports: one plot above the other, which follow the same address.
      const keys = [page + '-' + kind, ...(kind === 'lives' && view.with ? [page + '-lives-candidate'] : [])];
      for (const key of keys) {
        if (plots[key] && root.contains(plots[key].root)) continue;
        plots[key] = KINDS[key](axis.make('div', 'chart', root));
      }
      const shown = keys.map((key) => plots[key]);
      for (const child of root.children) {
        /** @type {HTMLElement} */ (child).hidden = !shown.some((plot) => plot.root === child);
      }
      for (const plot of shown) {
        plot.page = page;
        plot.show({...view});
      }
    });
  }

  Object.assign(charts, {
    memory: (view) => show('memory', view && KINDS['memory-' + view.graph] ? view.graph : 'tiles', view),
    liveness: (view) => show('liveness', 'steps', view),

    // Which controls have something to do.
    memory_fields(view) {
      const isShown = (is) => is ? {} : HIDDEN;
      const graph = view ? view.graph : 'tiles';
      const isTiles = graph === 'tiles' || !KINDS['memory-' + graph];
      const named = isTiles ? view && view.breakdown === 'variables' : graph === 'map' && view.of === 'named';
      return [
        isShown(isTiles), isShown(named), isShown(isTiles), isShown(isTiles && view && view.with),
        isShown(graph === 'map'), isShown(graph === 'map' && view && view.with),
      ];
    },
    liveness_fields: (view) => view && view.with ? {} : HIDDEN,
  });

  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const shown = Object.values(plots).filter((one) => one.isShown());
    const plot = shown.find((one) => one.box === target) || shown[0];
    if (!plot || !plot.extent || event.ctrlKey || event.altKey || event.metaKey) return;
    const isInside = target === plot.box;
    if (!isInside && axis.isTyping(target)) return;
    if (isInside && plot.press(event)) return;
    if (plot.moveTo) axis.pressKey(axis.motionKeys(plot), event);
  });
})();
