"""Names, places, numbers, periphrases, adverbs and the other short tables."""

MEN = """
Juan Pedro Luis Carlos Miguel Antonio José Javier Pablo Diego Andrés Manuel Fernando Alberto
Sergio Tomás Rafael Raúl Jorge Daniel
"""

WOMEN = """
María Ana Carmen Lucía Laura Marta Elena Sofía Paula Isabel Raquel Carla Julia Teresa Pilar
Irene Sara Beatriz Silvia Alicia
"""

CITIES = """
Madrid=Madrid Barcelona=Barcelona Sevilla=Seville Valencia=Valencia Granada=Granada
Toledo=Toledo Londres=London París=Paris Roma=Rome Berlín=Berlin Lisboa=Lisbon Moscú=Moscow
Tokio=Tokyo Bogotá=Bogotá Lima=Lima Atenas=Athens Viena=Vienna Ginebra=Geneva
"""

COUNTRIES = """
España=Spain Francia=France Italia=Italy Alemania=Germany Inglaterra=England México=Mexico
Argentina=Argentina Perú=Peru Chile=Chile Brasil=Brazil Japón=Japan China=China India=India
Rusia=Russia Portugal=Portugal Grecia=Greece Canadá=Canada Suiza=Switzerland Egipto=Egypt
Cuba=Cuba
"""

NUMBERS = """
dos=two tres=three cuatro=four cinco=five seis=six siete=seven ocho=eight nueve=nine diez=ten
once=eleven doce=twelve quince=fifteen veinte=twenty treinta=thirty cuarenta=forty
cincuenta=fifty sesenta=sixty setenta=seventy ochenta=eighty cien=a_hundred
"""

ORDINALS = """
primero=first segundo=second tercero=third cuarto=fourth quinto=fifth último=last
"""

WEEKDAYS = """
lunes=Monday martes=Tuesday miércoles=Wednesday jueves=Thursday viernes=Friday
sábado=Saturday domingo=Sunday
"""

MONTHS = """
enero=January febrero=February marzo=March abril=April mayo=May junio=June julio=July
agosto=August septiembre=September octubre=October noviembre=November diciembre=December
"""

SEASONS = "primavera=spring verano=summer otoño=fall invierno=winter"

MATERIALS = """
madera=wooden oro=gold plata=silver cuero=leather cristal=glass plástico=plastic
"""

# Before the verb in both languages: tenses it goes with, Spanish, English.
FREQUENCY = """
pres imp modal | siempre | always
pres imp | casi siempre | almost always
pres imp | a menudo | often
pres imp | a veces | sometimes
pres | normalmente | usually
pres imp | raramente | rarely
perf pret | por fin | finally
perf plup | ya | already
pres imp pret fut perf modal | también | also
pres prog | todavía | still
"""

# Manner adverbs, by the letter verbs name them with.
MANNER = """
W | bien | well
W | mal | badly
W | muy bien | very well
W | mejor que nadie | better than anyone
Q | rápidamente | quickly
Q | deprisa | quickly
Q | despacio | slowly
Q | lentamente | slowly
H | mucho | a lot
H | poco | very little
H | demasiado | too much
T | temprano | early
T | tarde | late
T | muy temprano | very early
T | demasiado tarde | too late
C | con cuidado | carefully
N | en silencio | in silence
N | sin razón | for no reason
"""

# Times of day, week and year: the tenses each goes with, Spanish, English.
TIMES = """
pret | ayer | yesterday
pret | anoche | last night
pret | anteayer | the day before yesterday
pret | ayer por la tarde | yesterday afternoon
pret | la semana pasada | last week
pret | el mes pasado | last month
pret | el año pasado | last year
pret | esta mañana | this morning
fut modal | mañana | tomorrow
fut modal | pasado mañana | the day after tomorrow
fut modal | mañana por la mañana | tomorrow morning
fut modal | esta noche | tonight
fut modal | la semana que viene | next week
fut modal | el mes que viene | next month
fut modal | el año que viene | next year
fut modal | este fin de semana | this weekend
pres imp | todos los días | every day
pres imp | cada semana | every week
pres imp | todos los años | every year
pres imp | por la mañana | in the morning
pres imp | por la tarde | in the afternoon
pres imp | por la noche | at night
pres imp | los fines de semana | on weekends
pres imp | una vez al mes | once a month
pres imp | dos veces por semana | twice a week
perf modal | hoy | today
perf | esta semana | this week
perf | este año | this year
perf | muchas veces | many times
prog | ahora | now
prog | en este momento | at this moment
"""

# Spanish verb and marks | linking word, form of the main verb | English operator verb |
# English link and form | tenses
PERIPHRASES = """
querer | inf | want | to base | pres imp | 4
poder | inf | can | base | pres imp cond | 4
tener | que inf | have | to base | pres pret fut | 4
ir | a inf | be going | to base | pres imp | 5
deber | inf | should | base | pres | 3
necesitar | inf | need | to base | pres | 2
acabar | de inf | have just | part | pres | 2
empezar | a inf | start | to base | pret | 2
dejar | de inf | stop | ger | pret | 2
intentar | inf | try | to base | pres pret | 2
decidir | inf | decide | to base | pret | 2
soler | inf | usually | base | pres | 1.5
seguir | ger | keep | ger | pres pret | 1
esperar | inf | hope | to base | pres | 1.5
prometer | inf | promise | to base | pret | 1
"""

# What things are made of: the noun, then what can be made of it.
MADE_OF = """
madera: mesa silla puerta caja cama escritorio estante juguete cuchara armario muñeca
oro: reloj anillo moneda taza plato
plata: reloj anillo cuchillo cuchara tenedor plato moneda
cuero: bolsa zapato bota guante chaqueta maleta sofá
cristal: vaso taza anillo plato mesa botella lámpara puerta
plástico: caja plato vaso juguete silla bolsa botella cuchara
"""
