// The frame around the pages: routing, links that keep the reports, colour scheme, keys, copying.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const HIDDEN = {display: 'none'};
  const SHOWN = {display: 'block'};

  function reportQuery(search) {
    const query = new URLSearchParams(search);
    const kept = new URLSearchParams();
    for (const name of ['report', 'with']) if (query.get(name)) kept.set(name, query.get(name));
    const text = kept.toString();
    return text ? '?' + text : '';
  }

  // By page: the parameters it was left with. They hold while the reports are the same.
  /** @type {Record<string, string>} */
  const left = {};

  function linkTo(path, query) {
    return path + (left[path] !== undefined && reportQuery(left[path]) === query ? left[path] : query);
  }

  function isTyping(target) {
    return target.closest('input, textarea, select, [contenteditable="true"]') !== null;
  }

  clientside.shell = {
    // Shows one page, marks its link, and keeps the reports, and what a page showed, in every link.
    route(pathname, search, paths) {
      const path = pathname === '/' ? paths[0] : pathname;
      const known = paths.includes(path);
      const query = reportQuery(search);
      if (known) left[path] = search;
      const names = document.querySelectorAll('.menu-link .menu-text');
      document.title = (known ? names[paths.indexOf(path)]?.textContent + ' – ' : '') + 'TileScope';
      setTimeout(() => {
        window.dispatchEvent(new Event('resize'));
        window.dispatchEvent(new Event('tilescope:page'));
      }, 0);
      return [
        paths.map((candidate) => candidate === path ? SHOWN : HIDDEN),
        known ? HIDDEN : SHOWN,
        paths.map((candidate) => linkTo(candidate, query)),
        paths.map((candidate) => 'menu-link' + (candidate === path ? ' is-current' : '')),
      ];
    },

    // The two report menus follow the URL.
    reports(search, listing) {
      const query = new URLSearchParams(search);
      return [query.get('report') || (listing.length ? listing[0].id : null), query.get('with')];
    },

    // The URL follows the two menus; another report starts with a fresh view.
    choose(baseline, candidate, listing) {
      const query = new URLSearchParams(location.search);
      const first = listing.length ? listing[0].id : '';
      const before = query.get('report') || first;
      if (baseline === before && (candidate || '') === (query.get('with') || '')) return;
      window.tilescope.changeView({report: baseline || '', with: candidate || ''}, true);
    },

    swap(clicks, listing) {
      const query = new URLSearchParams(location.search);
      if (!clicks || !query.get('with')) return;
      const baseline = query.get('report') || listing[0].id;
      window.tilescope.changeView({report: query.get('with'), with: baseline}, true);
    },

    scheme(clicks) {
      if (!clicks) return;
      const root = document.documentElement;
      const next = root.getAttribute('data-mantine-color-scheme') === 'dark' ? 'light' : 'dark';
      root.setAttribute('data-mantine-color-scheme', next);
      try { localStorage.setItem('mantine-color-scheme-value', next); } catch (error) { /* private */ }
      window.dispatchEvent(new CustomEvent('tilescope:scheme', {detail: next}));
    },

    menu(clicks) {
      if (!clicks) return;
      const narrow = document.documentElement.classList.toggle('menu-narrow');
      try { localStorage.setItem('tilescope-menu', narrow ? 'narrow' : ''); } catch (error) { /* private */ }
      setTimeout(() => window.dispatchEvent(new Event('resize')), 150);
    },

    async copy(clicks) {
      if (!clicks) return clientside.no_update;
      // The address never holds the token: it is taken out at the first request.
      const address = location.href;
      try {
        await navigator.clipboard.writeText(address);
        return 'Link copied';
      } catch (error) {
        const box = document.createElement('textarea');
        box.value = address;
        document.body.append(box);
        box.select();
        const done = document.execCommand('copy');
        box.remove();
        return done ? 'Link copied' : 'Copy the address bar';
      }
    },

    help(clicks, isOpen) {
      return clicks ? !isOpen : clientside.no_update;
    },
  };

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    /** @type {NodeListOf<HTMLElement>} */
    const pages = document.querySelectorAll('.page');
    const shown = [...pages].find((page) => page.offsetParent !== null);
    if (event.key === '?') {
      event.preventDefault();
      document.getElementById('help-button')?.click();
    } else if (event.key === '/') {
      /** @type {HTMLInputElement} */
      const box = shown?.querySelector('[data-search] input, input[data-search], .search-box input');
      if (box) { event.preventDefault(); box.focus(); box.select(); }
    } else if (/^[1-9]$/.test(event.key)) {
      const link = document.querySelectorAll('.menu-link')[Number(event.key) - 1];
      /** @type {HTMLElement | undefined} */ (link)?.click();
    }
  });

  // Links between pages, which static content holds, load nothing anew.
  document.addEventListener('click', (event) => {
    const link = /** @type {Element} */ (event.target).closest?.('a.page-link');
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const {pathname, search, href} = /** @type {HTMLAnchorElement} */ (link);
    history.pushState({}, '', pathname + search);
    clientside.set_props('url', {pathname, search, href});
  });

  // Two marked reports are compared, the first one as the baseline.
  /** @type {string[]} */
  const ticked = [];
  // A filter leaves other reports in the same boxes.
  function showTicks() {
    /** @type {NodeListOf<HTMLElement>} */
    const boxes = document.querySelectorAll('button.report-tick');
    for (const box of boxes) box.setAttribute('aria-pressed', String(ticked.includes(box.dataset.report)));
  }
  const listings = new MutationObserver(showTicks);
  /** @type {Element | null} */
  let listing = null;
  document.addEventListener('click', (event) => {
    const box = /** @type {HTMLElement} */ (/** @type {Element} */ (event.target).closest?.('button.report-tick'));
    if (!box) return;
    if (!listing) {
      listing = document.getElementById('reports-body');
      listings.observe(listing, {childList: true, subtree: true, attributes: true, attributeFilter: ['data-report']});
    }
    const id = box.dataset.report;
    const at = ticked.indexOf(id);
    if (at < 0) ticked.push(id); else ticked.splice(at, 1);
    if (ticked.length < 2) { showTicks(); return; }
    const [report, candidate] = ticked.splice(0, 2);
    showTicks();
    const search = '?' + new URLSearchParams({report, with: candidate});
    history.pushState({}, '', '/summary' + search);
    clientside.set_props('url', {pathname: '/summary', search, href: location.href});
  });

  // A collapsed panel stays collapsed, for every report.
  document.addEventListener('toggle', (event) => {
    const panel = /** @type {HTMLDetailsElement} */ (event.target);
    if (!panel.matches || !panel.matches('details.panel[id]')) return;
    try { localStorage.setItem('tilescope-panel-' + panel.id, panel.open ? '' : 'closed'); }
    catch (error) { /* private mode */ }
  }, true);
  new MutationObserver(() => {
    /** @type {NodeListOf<HTMLDetailsElement>} */
    const panels = document.querySelectorAll('details.panel[id]:not([data-restored])');
    for (const panel of panels) {
      panel.dataset.restored = '1';
      try {
        if (localStorage.getItem('tilescope-panel-' + panel.id) === 'closed') panel.open = false;
      } catch (error) { /* private mode */ }
    }
  }).observe(document.documentElement, {childList: true, subtree: true});
})();
