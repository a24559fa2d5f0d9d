// The frame around all pages: data from the server, colour scheme, menu, help, keys, panels.
(function () {
  'use strict';
  /** @type {FrameData} */
  const data = JSON.parse(document.getElementById('frame-data').textContent);
  const byId = (id) => document.getElementById(id);
  const remember = (key, value) => {
    try { localStorage.setItem(key, value); } catch (error) { /* private mode */ }
  };

  function isTyping(target) {
    return target.closest('input, textarea, select, [contenteditable="true"]') !== null;
  }

  byId('scheme-button').addEventListener('click', () => {
    const root = document.documentElement;
    const next = root.getAttribute('data-mantine-color-scheme') === 'dark' ? 'light' : 'dark';
    root.setAttribute('data-mantine-color-scheme', next);
    remember('mantine-color-scheme-value', next);
    window.dispatchEvent(new CustomEvent('tilescope:scheme', {detail: next}));
  });

  byId('menu-button').addEventListener('click', () => {
    const narrow = document.documentElement.classList.toggle('menu-narrow');
    remember('tilescope-menu', narrow ? 'narrow' : '');
    setTimeout(() => window.dispatchEvent(new Event('resize')), 150);
  });

  async function copy() {
    // The address never holds the token: it is taken out at the first request.
    const note = byId('copy-note');
    try {
      await navigator.clipboard.writeText(location.href);
      note.textContent = 'Link copied';
    } catch (error) {
      note.textContent = 'Copy the address bar';
    }
    setTimeout(() => { note.textContent = ''; }, 4000);
  }
  byId('copy-button')?.addEventListener('click', copy);

  // The help is fetched when it is opened for the first time.
  const help = /** @type {HTMLDialogElement} */ (byId('help'));
  async function showHelp() {
    if (help.open) { help.close(); return; }
    if (!help.firstChild) {
      const answer = await fetch('/api/help');
      // The server's own text, without anything from a report.
      if (answer.ok) help.innerHTML = await answer.text();
      else help.textContent = 'The help could not be loaded; is the server still running?';
    }
    /** @type {NodeListOf<HTMLElement>} */
    const abouts = help.querySelectorAll('.about-page');
    for (const about of abouts) about.hidden = about.dataset.path !== location.pathname;
    help.showModal();
  }
  byId('help-button').addEventListener('click', showHelp);
  document.addEventListener('click', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches('dialog') || target.closest('.dialog-close')) {
      /** @type {HTMLDialogElement} */ (target.closest('dialog')).close();
    }
  });

  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      window.tilescope.openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(target)) return;
    if (target.closest('dialog') && event.key !== '?') return;
    if (event.key === '?') {
      event.preventDefault();
      showHelp();
    } else if (event.key === '/') {
      /** @type {NodeListOf<HTMLInputElement>} */
      const boxes = document.querySelectorAll('.search-box input');
      const box = [...boxes].find((one) => one.offsetParent !== null);
      if (box) { event.preventDefault(); box.focus(); box.select(); }
    } else if (/^[1-9]$/.test(event.key)) {
      /** @type {NodeListOf<HTMLElement>} */
      const links = document.querySelectorAll('.menu-link[data-path]:not([hidden])');
      links[Number(event.key) - 1]?.click();
    }
  });

  // A collapsed panel stays collapsed, for every report.
  document.addEventListener('toggle', (event) => {
    const panel = /** @type {HTMLDetailsElement} */ (event.target);
    if (!panel.matches || !panel.matches('details.panel[id]')) return;
    remember('tilescope-panel-' + panel.id, panel.open ? '' : 'closed');
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

  // The list of the menus as it is now: a run that ended has another name.
  async function refreshReports() {
    const answer = await fetch('/api/reports');
    if (!answer.ok) return;
    const {reports} = await window.tilescope_text.read(answer);
    data.reports.splice(0, data.reports.length, ...reports);
    window.dispatchEvent(new Event('tilescope:reports'));
  }

  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {
    frame: data,
    isKnown: (report) => data.reports.some((one) => one.id === report),
    refreshReports,
    newestReport: () => data.reports.length ? data.reports[0].id : '',
  });
})();
