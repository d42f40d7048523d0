"""The irregular verbs: an infinitive and the marks `spanish.conjugate` reads."""

TABLE = """
abrir: part=abierto
acordar: o>ue
acostar: o>ue
cerrar: e>ie
conducir: zc pret=conduj
conocer: zc
contar: o>ue
corregir: e>i
costar: o>ue
dar: pres=doy,das,da,damos,dais,dan pret=di,diste,dio,dimos,disteis,dieron \
    subj=dé,des,dé,demos,deis,den
decir: e>i yo=digo pret=dij fut=dir part=dicho tú=di
descubrir: part=descubierto
despertar: e>ie
devolver: o>ue part=devuelto
doler: o>ue
dormir: o>ue
elegir: e>i
empezar: e>ie
encontrar: o>ue
entender: e>ie
enviar: i>í
escribir: part=escrito
estar: pres=estoy,estás,está,estamos,estáis,están pret=estuv \
    subj=esté,estés,esté,estemos,estéis,estén
haber: pres=he,has,ha,hemos,habéis,han pret=hub fut=habr subj=haya,hayas,haya,hayamos,hayáis,hayan
hacer: yo=hago pret=hic fut=har part=hecho tú=haz
ir: pres=voy,vas,va,vamos,vais,van pret=fui,fuiste,fue,fuimos,fuisteis,fueron \
    imp=iba,ibas,iba,íbamos,ibais,iban subj=vaya,vayas,vaya,vayamos,vayáis,vayan ger=yendo \
    part=ido tú=ve
jugar: u>ue
mostrar: o>ue
nacer: zc
ofrecer: zc
oír: yo=oigo pres=oigo,oyes,oye,oímos,oís,oyen
pedir: e>i
pensar: e>ie
perder: e>ie
poder: o>ue pret=pud fut=podr ger=pudiendo
poner: yo=pongo pret=pus fut=pondr part=puesto tú=pon
preferir: e>ie
probar: o>ue
querer: e>ie pret=quis fut=querr
recordar: o>ue
repetir: e>i
resolver: o>ue part=resuelto
romper: part=roto
saber: pres=sé,sabes,sabe,sabemos,sabéis,saben pret=sup fut=sabr \
    subj=sepa,sepas,sepa,sepamos,sepáis,sepan
salir: yo=salgo fut=saldr tú=sal
seguir: e>i
sentar: e>ie
ser: pres=soy,eres,es,somos,sois,son pret=fui,fuiste,fue,fuimos,fuisteis,fueron \
    imp=era,eras,era,éramos,erais,eran subj=sea,seas,sea,seamos,seáis,sean tú=sé
servir: e>i
soler: o>ue
sonreír: pres=sonrío,sonríes,sonríe,sonreímos,sonreís,sonríen \
    pret=sonreí,sonreíste,sonrió,sonreímos,sonreísteis,sonrieron yo=sonrío ger=sonriendo \
    part=sonreído
soñar: o>ue
tener: e>ie yo=tengo pret=tuv fut=tendr tú=ten
traducir: zc pret=traduj
traer: yo=traigo pret=traj
venir: e>ie yo=vengo pret=vin fut=vendr tú=ven
ver: pres=veo,ves,ve,vemos,veis,ven pret=vi,viste,vio,vimos,visteis,vieron \
    imp=veía,veías,veía,veíamos,veíais,veían yo=veo part=visto ger=viendo
vestir: e>i
volver: o>ue part=vuelto
"""
