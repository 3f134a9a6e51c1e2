/** One process at a time makes itself empty for a suspect; whoever dies meanwhile has the right for a minute more. */
export const seclusion = (jobs: string): string => `
insert into ${jobs}.chore (name, every) values ('seclusion', '1 minute');
`;
